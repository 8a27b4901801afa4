"""The histories on which mutants run: those of the unit tests and of the exhaustive tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from pyspark.sql import SparkSession

from checkers.checker import BOTH, EXTERNAL_HISTORIES, STORED_RUNS
from checkers.registry import CHECKERS
from tests.mutants.changed import forget

EXAMPLES = 20
"""A planted run has at most so many examples of an anomaly."""
ENTRIES = {
    STORED_RUNS: "checkers.checking.stored_runs",
    EXTERNAL_HISTORIES: "checkers.histories.check",
}
"""By kind of history: the module that checks it."""


class Histories(Protocol):
    """Histories of one kind, and what the checkers must find in them."""

    def difference(self) -> str | None:
        """Check the histories with the checkers as they are imported now; describe the first wrong answer."""
        ...


class StoredHistories:
    """The cases of the unit tests, then small and larger stored runs, then runs with planted anomalies."""

    def __init__(self, spark: SparkSession) -> None:
        import cases

        from tests.planted import families, plants

        self._spark = spark
        self._folder = TemporaryDirectory(prefix="fencepost-mutants-")
        folder = Path(self._folder.name)
        drawn = [*families.smalls(), *families.larger(range(20))]
        planted = plants.runs_with_plants(range(100))
        self._parts = [
            (cases.store(folder / "cases"), cases.CASES),
            (families.store(drawn, folder / "families"), drawn),
            (plants.store(planted, folder / "planted"), planted),
        ]

    def difference(self) -> str | None:
        """Check the parts one after the other."""
        from checkers.checking.stored_runs import check_runs

        for runs, wanted in self._parts:
            results = check_runs(self._spark, runs, examples=EXAMPLES)
            for run, one in zip(runs, wanted, strict=True):
                if difference := one.difference(results[run.run]):
                    return difference
        return None


class ExternalHistories:
    """The small external histories with those that have examples, then a part of the larger and random ones."""

    def __init__(self, spark: SparkSession) -> None:
        from checkers.histories.table import SparkTable
        from harness.record.history_form import NAMES
        from tests.exhaustive.external_examples import EXAMPLES as DESCRIBED
        from tests.reference.generate import small
        from tests.support.external_histories import expected_verdict, random_histories, tables

        every = list(small())
        parts = [
            [*(events for _, _, events in DESCRIBED), *every[:3_000]],
            [*every[3_000::7], *random_histories(range(400))],
        ]
        self._described = [(anomaly, example) for anomaly, example, _ in DESCRIBED]
        self._names = SparkTable(spark.createDataFrame(NAMES.empty_table()))
        self._parts = []
        for part in parts:
            ops, micro = (
                SparkTable(spark.createDataFrame(table).localCheckpoint()) for table in tables(part)
            )
            self._parts.append((ops, micro, [expected_verdict(events) for events in part]))

    def difference(self) -> str | None:
        """Check the small histories first."""
        from checkers.histories.check import check_histories
        from fencepost.checks.verdict_rules import decide_external
        from tests.support.within import is_part_of

        for number, (ops, micro, defined) in enumerate(self._parts):
            results = check_histories(ops, micro, self._names, range(len(defined)), examples=1)
            for run, one in enumerate(defined):
                if difference := one.difference(decide_external(Path("history.jsonl"), results[run])):
                    return f"history {run}: {difference}"
            for run, (anomaly, wanted) in enumerate(self._described if number == 0 else ()):
                example = results[run].anomalies[anomaly].examples[0].as_json()
                if not is_part_of(wanted, example):
                    return f"history {run}: the example of {anomaly} is {example}"
        return None


KINDS: Mapping[str, Callable[[SparkSession], Histories]] = {
    STORED_RUNS: StoredHistories,
    EXTERNAL_HISTORIES: ExternalHistories,
}


def kinds_for(file: str) -> list[str]:
    """Return the kinds of history on whose checks a checker file has an influence."""
    module = file.removesuffix(".py").replace("/", ".")
    checker = next((one for one in CHECKERS if module == f"checkers.anomalies.{one.module}"), None)
    if checker is not None:
        return [kind for kind in KINDS if checker.applies_to in (kind, BOTH)]
    if module.startswith("checkers.anomalies."):
        return [*KINDS]
    if module.startswith(("checkers.stored.", "checkers.histories.")):
        own = STORED_RUNS if module.startswith("checkers.stored.") else EXTERNAL_HISTORIES
        return [own] if module in _imported_by(ENTRIES[own]) else []
    return [kind for kind in KINDS if module in _imported_by(ENTRIES[kind])]


@cache
def _imported_by(entry: str) -> frozenset[str]:
    """Return the checker modules that a module imports."""
    forget()
    import_module(entry)
    return frozenset(name for name in sys.modules if name.startswith("checkers."))
