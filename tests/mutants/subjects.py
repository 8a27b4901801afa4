"""What mutants are judged by: the exhaustive tests' own histories and definitions."""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

SMALL, STRIDE = 3_000, 7
ROOT = Path(__file__).parent.parent.parent


class Subject(Protocol):
    """Histories, and what must be found in them."""

    spark: SparkSession

    def differs(self) -> str | None:
        """The first history that the checkers, as they are imported now, judge otherwise; None: none."""
        ...


class Told:
    """Histories of what clients told: the small ones; of the rest every seventh, and all random ones."""

    def __init__(self, spark: SparkSession) -> None:
        from exhaustive import test_told_histories as told
        from plain.jepsen import verdict

        self.spark = spark
        every = list(told.histories())
        parts = [list(islice(every, SMALL)), every[SMALL : -told.RANDOM : STRIDE] + every[-told.RANDOM :]]
        self._parts = []
        for part in parts:
            ops, micro = (spark.createDataFrame(table).localCheckpoint() for table in told.tables(part))
            self._parts.append((ops, micro, [verdict(events) for events in part]))

    def differs(self) -> str | None:
        """Small ones first."""
        from checkers.judge_told import judge_told
        from harness.history_files.schema import NAMES

        names = self.spark.createDataFrame(NAMES.empty_table())
        for ops, micro, defined in self._parts:
            found = judge_told(ops, micro, names, range(len(defined)), examples=1)
            for run, (_, counts, allowed) in enumerate(defined):
                said = found[run].anomalies
                if {name: one.count for name, one in said.items()} != counts:
                    return f"history {run}: other anomalies"
                if {name for name, one in said.items() if one.allowed} != allowed:
                    return f"history {run}: others are allowed"
                if found[run].broken.keys() - {"nothing read"}:
                    return f"history {run}: a check crashed"
        return None


SUBJECTS: Mapping[str, Callable[[SparkSession], Subject]] = {"told": Told}


@cache
def subjects_of() -> dict[str, tuple[str, ...]]:
    """By file of the checkers, what judges its mutants."""
    from checkers.registry import HISTORIES, HISTORY_CHECKERS

    found = {
        path.relative_to(ROOT).as_posix(): ("told",)
        for folder in ("by_key", "graph")
        for path in sorted((ROOT / "checkers" / folder).glob("*.py"))
        if path.name != "__init__.py"
    }
    for name in (
        "told",
        "jumps",
        "judge_told",
        *(c.module for c in HISTORY_CHECKERS if c.judges == HISTORIES),
    ):
        found[f"checkers/{name}.py"] = ("told",)
    return found
