"""All families of stored runs. Each history is one run, and its result is compared with the definition."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from checkers.checking.stored_runs import StoredRun
from harness.results.verdict import STAGE, CheckResult
from tests.planted import chains, counted, logs, reads, states, transactions
from tests.planted.words import Counts
from tests.support.histories import History
from tests.support.stored_tables import write_store

ONLY = {"claims": {"premature-offset"}, "chains": {"lost-input", "reprocessed-input"}}
"""Families in which only these anomalies are compared."""


@dataclass(frozen=True)
class Small:
    """A history with its expected counts. `what` is the value that the history was drawn from."""

    family: str
    history: History
    meant: Counts
    what: object

    def differs(self, result: CheckResult) -> str | None:
        """Describe the difference between the result and the definition; None if there is none."""
        looked_for = ONLY.get(self.family, result.anomalies)
        found = {name: one for name, one in result.anomalies.items() if name in looked_for}
        said = {name: one.count for name, one in found.items() if one.allowed_by != STAGE}
        permitted = {
            name: one.count if one.allowed_by == STAGE else one.permitted for name, one in found.items()
        }
        said |= {f"{name}, permitted": count for name, count in permitted.items() if count}
        if said != self.meant:
            return f"{self.what}: found {said}, defined {self.meant}"
        miscounted = counted.differs(self.history, result, whole=True)
        return f"{self.what}: {miscounted}" if miscounted else None


@dataclass(frozen=True)
class Family:
    """Functions that make all small histories and random larger ones, draw them, and define their counts."""

    small: Callable[[], Iterable[Any]]
    larger: Callable[[Random], Any]
    draw: Callable[[Any], History]
    defined: Callable[[Any], Counts]


FAMILIES = {
    "transactions": Family(transactions.small, transactions.larger, transactions.draw, transactions.defined),
    "inputs": Family(
        transactions.inputs, transactions.larger_inputs, transactions.draw, transactions.defined
    ),
    "logs": Family(logs.logs, logs.larger_log, logs.draw_log, logs.defined_log),
    "partitions": Family(logs.partitions, logs.larger_partition, logs.draw_partition, logs.defined_partition),
    "states": Family(states.small, states.larger, states.draw, states.defined),
    "marked": Family(logs.marked, logs.larger_marked, logs.draw_marked, logs.defined_marked),
    "chains": Family(chains.small, chains.larger, chains.draw, chains.defined),
    "reads": Family(reads.small, reads.larger, reads.draw, reads.defined),
    "claims": Family(reads.claims, reads.larger_claims, reads.draw_claims, reads.defined_claims),
}


def smalls() -> list[Small]:
    """All small histories of all families."""
    return [
        Small(name, family.draw(one), family.defined(one), one)
        for name, family in FAMILIES.items()
        for one in family.small()
    ]


def larger(seeds: Iterable[int]) -> list[Small]:
    """One larger history of each family for each seed."""
    made = (
        (name, family, family.larger(Random(seed))) for seed in seeds for name, family in FAMILIES.items()
    )
    return [Small(name, family.draw(one), family.defined(one), one) for name, family, one in made]


def store(smalls: Sequence[Small], folder: Path, first: int = 0) -> list[StoredRun]:
    """Write the histories to one folder, as runs numbered from `first`."""
    write_store(folder, [(run, small.history) for run, small in enumerate(smalls, first)], log=True)
    return [
        StoredRun(run, folder, small.history.wall_ms, promises=small.history.promises, drained=False)
        for run, small in enumerate(smalls, first)
    ]
