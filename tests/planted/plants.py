"""Runs with planted anomalies. A check must find exactly these."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from checkers.checking.stored_runs import StoredRun
from harness.results.verdict import CheckResult
from tests.planted import counted, plant_inputs, plant_log, plant_order, plant_records, plant_transactions
from tests.planted.gone import NEEDS_ALL
from tests.planted.planted import Planted, find_difference
from tests.planted.run import Run
from tests.support.stored_tables import write_store

Plant = Callable[[Run, Random], Planted]
PLANTS: Mapping[str, Plant] = {
    plant.__name__: plant
    for module in (plant_transactions, plant_records, plant_inputs, plant_order, plant_log)
    for plant in module.PLANTS
}
EXAMPLES = 20
"""The number of examples of each anomaly. It is enough for all that are planted in one run."""
NEEDS_LOGS = {"torn-transaction", "zombie-write"}
"""Anomalies of which a check without logs may miss some."""


@dataclass(frozen=True)
class PlantedRun:
    """A run, the planted findings, and the names of the plants."""

    seed: int
    run: Run
    planted: Planted
    plants: Sequence[str]
    logged: bool

    def differs(self, result: CheckResult) -> str | None:
        """Describe the difference between the result and the planted findings; None if there is none."""
        letters = {topic_partition: letter for letter, topic_partition in self.run.topic_partitions.items()}
        said = {
            name: [_by_letters(one.as_json(), letters) for one in anomaly.examples]
            for name, anomaly in result.anomalies.items()
        }
        dim = NEEDS_ALL if self.run.gone else frozenset[str]()
        dim |= frozenset() if self.logged else {*result.not_checked, *NEEDS_LOGS}
        wanted: Planted = {name: [] for name in self.planted}
        may_be: Planted = {name: [] for name in self.planted}
        for name, found in self.planted.items():
            for one in found:
                (may_be if name in dim or _names(one, self.run.gone) else wanted)[name].append(one)
        if not self.logged:  # what was aborted is not given to the final reader
            may_be = {**self.planted, "vanished": self.planted.get("dirty-read", [])}
        difference = find_difference(wanted, may_be, said)
        counts = {name: anomaly.count for name, anomaly in result.anomalies.items()}
        if difference is None and counts != {name: len(examples) for name, examples in said.items()}:
            difference = f"{counts} are counted"
        difference = difference or counted.differs(self.run, result, log=self.logged, whole=True)
        return f"seed {self.seed}, {', '.join(self.plants)}: {difference}" if difference else None


def _names(thing: Any, gone: Mapping[str, Set[int]]) -> bool:
    """Whether an example names a removed record."""
    if isinstance(thing, Mapping):
        return thing.get("offset") in gone.get(thing.get("topic", ""), ()) or _names([*thing.values()], gone)
    return isinstance(thing, list) and any(_names(one, gone) for one in thing)


def _by_letters(thing: Any, letters: Mapping[tuple[str, int], str]) -> Any:
    """An example with the letters of the history instead of topics and partitions."""
    if isinstance(thing, list):
        return [_by_letters(one, letters) for one in thing]
    if not isinstance(thing, dict):
        return thing
    named = {name: _by_letters(held, letters) for name, held in thing.items()}
    letter = letters.get((str(thing.get("topic")), thing.get("partition", -1)))
    return named | {"topic": letter} if letter else named


def planted_run(seed: int, plants: Sequence[str] | None = None, *, logged: bool = True) -> PlantedRun:
    """A run of some dozens of steps with random plants, up to eight, or with the plants that are named.

    If plants are named, no records are removed in the end.
    """
    rng = Random(seed)
    chosen = rng.choices(sorted(PLANTS), k=rng.choice([0, 1, 2, 4, 8])) if plants is None else plants
    h, planted = Run(rng, whole=plants is not None), Planted()
    h.feeds("a")
    h.takes("a", "ok")
    for plant in chosen:
        for _ in range(rng.randint(0, 12)):
            h.step()
        for name, found in PLANTS[plant](h, rng).items():
            planted.setdefault(name, []).extend(found)
    for _ in range(rng.randint(5, 20)):
        h.step()
    h.ends()
    return PlantedRun(seed, h, planted, chosen, logged)


def runs_with_plants(seeds: Iterable[int], *, logged: bool = True) -> list[PlantedRun]:
    """A run for each seed; the lowest seeds have one plant each."""
    alone = dict(enumerate(PLANTS))
    return [planted_run(seed, [alone[seed]] if seed in alone else None, logged=logged) for seed in seeds]


def store(runs: Iterable[PlantedRun], folder: Path, first: int = 0) -> list[StoredRun]:
    """Write the runs to two folders, with logs and without, numbered from `first`."""
    numbered = list(enumerate(runs, first))
    for logged in (True, False):
        histories = [(number, one.run) for number, one in numbered if one.logged is logged]
        write_store(folder / f"log-{logged}", histories, log=logged)
    return [
        StoredRun(
            number,
            folder / f"log-{one.logged}",
            one.run.wall_ms,
            healed=one.run.healed,
            drained=False,
        )
        for number, one in numbered
    ]
