"""What mutants are judged by: the exhaustive tests' own histories and definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import SparkSession

from tests.mutants.stored import Stored
from tests.mutants.tested import TESTS

if TYPE_CHECKING:
    from checkers.checker import Checker
    from checkers.external.table import InSpark
    from checkers.external.tables import ExternalTables as Tables_
    from checkers.judging.run_checks import Collected
    from harness.verdict import Judgement
    from tests.support.external_histories import Defined

SMALL, STRIDE, RANDOM = 3_000, 7, 400
ROOT = Path(__file__).parent.parent.parent


class Subject(Protocol):
    """Histories, and what must be found in them."""

    spark: SparkSession

    def differs(self, file: str | None) -> str | None:
        """The first history that the checkers, as they are imported now, judge otherwise; None: none.

        `file`: the one that is changed; what does not depend on it need not be done again.
        """
        ...


class ExternalTables:
    """Histories of what clients told: the small ones, with those that have examples; of the rest every
    seventh, and random ones.
    """

    def __init__(self, spark: SparkSession) -> None:
        from checkers.external.table import InSpark
        from tests.exhaustive.told_examples import EXAMPLES
        from tests.reference.generate import small
        from tests.support.external_histories import define, random_ones, tables

        self.spark = spark
        self._examples = [(anomaly, wanted) for anomaly, wanted, _ in EXAMPLES]
        told, every = [events for _, _, events in EXAMPLES], list(small())
        parts = [[*told, *every[:SMALL]], [*every[SMALL::STRIDE], *random_ones(range(RANDOM))]]
        self._parts = []
        for part in parts:
            ops, micro = (InSpark(spark.createDataFrame(table).localCheckpoint()) for table in tables(part))
            self._parts.append(Part(ops, micro, list(map(define, part))))

    def differs(self, file: str | None) -> str | None:
        """Small ones first. All is judged again; of a checker that has changed, only what itself finds."""
        from checkers.registry import HISTORY_CHECKERS
        from fencepost.verdict_rules import decide_external

        changed = [
            c
            for c in HISTORY_CHECKERS
            if file == f"checkers/anomalies/{c.module}.py" and c.module != "cycles"
        ]
        for part in self._parts:
            again = bool(changed) and part.kept is not None
            judged = part.judge_again(changed[0]) if again else part.judge_all(keep=file is None)
            for run, defined in enumerate(part.defined):
                verdict = decide_external(Path("history.jsonl"), judged[run])
                if difference := defined.differs(verdict):
                    return f"history {run}: {difference}"
            if part is self._parts[0] and (untold := self._untold(judged)):
                return untold
        return None

    def _untold(self, judged: Mapping[int, Judgement]) -> str | None:
        """The first example that does not hold what it must."""
        from tests.support.within import within

        for run, (anomaly, wanted) in enumerate(self._examples):
            example = judged[run].anomalies[anomaly].examples[0]
            if not within(wanted, example):
                return f"history {run}: the example of {anomaly} holds {example}"
        return None


@dataclass
class Part:
    """Some histories, and what must be said of them; with what was made of them before a change."""

    ops: InSpark
    micro: InSpark
    defined: Sequence[Defined]
    kept: tuple[Tables_, InSpark, Collected] | None = None

    def judge_all(self, *, keep: bool) -> Mapping[int, Judgement]:
        """From the micro-operations on."""
        from checkers.external.operations import count_operations
        from checkers.external.table import InSpark
        from checkers.external.tables import make_external
        from checkers.judging.external_histories import _explain, judge_external
        from checkers.judging.run_checks import collect
        from checkers.registry import HISTORY_CHECKERS, UNSETTLED
        from harness.history_files.schema import NAMES

        names = InSpark(self.ops.rows.sparkSession.createDataFrame(NAMES.empty_table()))
        if keep:
            tables = make_external(self.ops, self.micro, count_operations(self.ops), 1)
            found = collect(tables, (*HISTORY_CHECKERS, UNSETTLED), 1)
            _explain(tables, self.ops, names, found.rows)
            self.kept = tables, names, found
        return judge_external(self.ops, self.micro, names, range(len(self.defined)), examples=1)

    def judge_again(self, checker: Checker) -> Mapping[int, Judgement]:
        """From the shared tables on, by one checker; the others say what they said."""
        from checkers.external.operations import count_operations
        from checkers.judging import external_histories as judge_external
        from checkers.judging.run_checks import collect

        assert self.kept is not None
        tables, names, before = self.kept
        found = collect(tables, [checker], 1)
        judge_external._explain(tables, self.ops, names, found.rows)
        others = {key: row for key, row in before.rows.items() if key[1] not in checker.anomalies}
        together = replace(before, rows=others | found.rows, crashed=found.crashed)
        numbers = count_operations(self.ops)
        judge_external._add_records(numbers, tables)
        return {
            run: judge_external._judgement(run, together, numbers[run], frozenset(), frozenset())
            for run in range(len(self.defined))
        }


SUBJECTS: Mapping[str, Callable[[SparkSession], Subject]] = {"told": ExternalTables, "stored": Stored}
SHARED = (
    "stored/tables", "stored/inputs", "stored/positions", "stored/operations", "stored/partitions",
    "stored/position_events", "stored/producers", "stored/values", "judging/facts", "judging/completeness",
    "judging/gathered", "judging/observers", "judging/replicas", "judging/stored_runs", "judging/run_checks",
    "judging/ranking", "registry", "findings/rules", "checker",
)  # fmt: skip
"""What all checkers of stored runs stand on."""


@cache
def subjects_of() -> dict[str, tuple[str, ...]]:
    """By file of the checkers, what judges its mutants; nothing: the tests alone (`mutants.tested.TESTS`)."""
    from checkers.registry import HISTORY_CHECKERS, STORE_CHECKERS

    found: dict[str, tuple[str, ...]] = {f"checkers/{name}.py": () for name in TESTS}
    found |= {
        path.relative_to(ROOT).as_posix(): ("told",)
        for folder in ("by_key", "graph")
        for path in sorted((ROOT / "checkers" / "external" / folder).glob("*.py"))
        if path.name != "__init__.py"
    }
    for name in (
        "external/tables",
        "external/operations",
        "external/records",
        "external/jumps",
        "judging/external_histories",
    ):
        found[f"checkers/{name}.py"] = ("told",)
    for name in SHARED:
        found[f"checkers/{name}.py"] = ("stored",)
    for name in ("anomalies/indeterminate", "findings/build", "findings/lookup", "judging/explain"):
        found[f"checkers/{name}.py"] = ("told", "stored")
    for checker in (*HISTORY_CHECKERS, *STORE_CHECKERS):
        judges = (("told", HISTORY_CHECKERS), ("stored", STORE_CHECKERS))
        found[f"checkers/anomalies/{checker.module}.py"] = tuple(
            name for name, own in judges if checker in own
        )
    return found
