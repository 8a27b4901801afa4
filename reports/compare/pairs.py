"""Pair the cells of two suites, and the runs of two cells. A run without a partner is kept."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from harness.results.suite import Cell
from reports.compare.sides import ComparedRun
from reports.settings import setting_text

Runs = Sequence[ComparedRun]
SEED_KEYS = ("seed", "repeat")
"""The parts of a cell's name that only tell its seeds apart."""


@dataclass(frozen=True)
class RunPair:
    """The runs of one cell, or of two cells that are compared. One side may have none."""

    name: str  # without seeds; empty for two runs that were named alone
    a: Runs
    b: Runs

    @property
    def by_seed(self) -> Iterator[tuple[int | None, ComparedRun | None, ComparedRun | None]]:
        """Yield each seed with a run of A and a run of B. None: this side has no run with the seed."""
        for seed in dict.fromkeys(run.seed for run in (*self.a, *self.b)):
            with_seed = ([run for run in runs if run.seed == seed] for runs in (self.a, self.b))
            for a, b in zip_longest(*with_seed):
                yield seed, a, b


def pair_cells(a: Runs, b: Runs) -> list[RunPair]:
    """Pair the runs of two suites whose cells have the same name, apart from the seed.

    An option that has one value in all runs of A, and another value in all runs of B, is what the two suites compare.
    It does not count as part of the name.
    """
    keys = _name_keys([*a, *b])
    same = [key for key in keys if not _is_compared(key, a, b)]
    names = list(dict.fromkeys(_name(run, same) for run in (*a, *b)))
    return [
        RunPair(name, *([run for run in runs if _name(run, same) == name] for runs in (a, b)))
        for name in names
    ]


def _name_keys(runs: Runs) -> list[str]:
    more = (key for run in runs if run.cell for key in run.cell.more if key not in SEED_KEYS)
    return list(dict.fromkeys(["workload", "client", "nemesis", *more]))


def _is_compared(key: str, a: Runs, b: Runs) -> bool:
    values_a, values_b = ({_value(run.cell, key) for run in runs if run.cell} for runs in (a, b))
    return len(values_a) == 1 and len(values_b) == 1 and values_a != values_b


def _value(cell: Cell, key: str) -> str:
    """Return an option of a cell. Suites differ in which options they name, so the options are read first."""
    named = {"workload": cell.workload, "client": cell.client, "nemesis": cell.nemesis}
    if key in named:
        return named[key]
    return setting_text(key, cell.options[key]) if key in cell.options else cell.more.get(key, "not set")


def _name(run: ComparedRun, keys: Iterable[str]) -> str:
    if run.cell is None:
        return ""
    cell = run.cell
    words = [
        _value(cell, key) if key in ("workload", "client", "nemesis") else f"{key}={_value(cell, key)}"
        for key in keys
    ]
    return " ".join(words) or "all runs"
