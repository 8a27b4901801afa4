"""The one place where the checkers run: all findings of all runs, counted, the first of them kept.

The order of the examples: one of each operation before a second one of any; among them as each checker states
it (`position`, smallest first; then the detail's text).
`checkers.checking.explain` says what an example holds.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.checker import Checker
from checkers.checking.evidence import Fact
from checkers.checking.explain import explain
from checkers.checking.facts import gather_facts
from checkers.checking.prefilter import Selection, count_and_select
from checkers.checking.ranking import causes_of_few, first_of_few
from checkers.external.tables import ExternalTables
from checkers.findings.form import FINDING, Findings
from checkers.findings.rules import Rule, apply_rules
from checkers.spark.checkpoint import checkpoint
from checkers.spark.errors import SPARK_ERRORS, has_ended
from checkers.spark.jvm import last_cause
from checkers.stored.sources import Sources
from checkers.stored.tables import Tables
from harness.results.reasons import Reason, ReasonCode

log = logging.getLogger(__name__)

AT_ONCE = 3
"""Queries at work together: one for the rules over each table, and one for each checker that needs more than a
row. Spark takes more than twice as long to plan them as one, for it looks at a union as a whole each time that
another is added.
"""
FEW = 5_000
"""Findings that are ranked here, without Spark."""
T = TypeVar("T")
Phase = Callable[[str], None]
"""Is told what begins."""


@dataclass
class CheckOutput:
    """All that the job brought home."""

    findings: dict[tuple[int, str, bool], Findings]  # by run, anomaly, absence
    facts: dict[int, list[Fact]]  # by run
    crashed: dict[str, Reason]  # by anomaly: the first line of what went wrong
    caused: set[
        tuple[int, str, str]
    ]  # run, effect, cause: every finding of the effect shares an operation with it


@dataclass(frozen=True)
class QueryFindings:
    """Findings, here or in Spark."""

    few: Sequence[Mapping[str, Any]] = ()
    many: DataFrame | None = None


@dataclass
class CollectedFindings:
    """What the checkers found, before anything is explained."""

    rows: dict[tuple[int, str, bool], Findings]
    crashed: dict[str, Reason]
    caused: set[tuple[int, str, str]]


def no_progress(name: str) -> None:
    """Tell nobody what begins."""


def run_checkers(
    s: Sources,
    t: Tables,
    checkers: Sequence[Checker],
    examples: int,
    phase: Phase = no_progress,
    contents: Collection[int] = (),
) -> CheckOutput:
    """Run all checkers, and beside them gather the facts of each run; keep the first findings of each. `contents`: the
    runs whose records are shown with what they hold.
    """
    phase("checks")
    counts, selection = count_and_select(t, checkers)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="facts") as pool:
        gathering = pool.submit(gather_facts, s, t, counts)
        found = collect(t, checkers, examples, selection)
        facts = gathering.result()
    phase("examples")
    explain_all(s, t, checkers, found, facts, contents)
    return CheckOutput(found.rows, facts, found.crashed, found.caused)


def explain_all(
    s: Sources,
    t: Tables,
    checkers: Sequence[Checker],
    found: CollectedFindings,
    facts: Mapping[int, list[Fact]],
    contents: Collection[int] = (),
) -> None:
    """Add to the examples, in place: what each checker alone knows, then names and circumstances. What a
    checker has found stands, though it crash here.
    """
    for checker in checkers:
        mine: dict[int, list[Findings]] = defaultdict(list)
        for (run, name, _), one in found.rows.items():
            if name in checker.anomalies:
                mine[run].append(one)
        _guarded(checker, partial(checker.explain, t, mine), found.crashed)
    explain(s, t, found.rows, facts, contents)


def collect(
    t: Tables | ExternalTables,
    checkers: Sequence[Checker],
    examples: int,
    selection: Selection | None = None,
) -> CollectedFindings:
    """Run the checkers on the shared tables, and keep the first `examples` findings of each anomaly.

    `selection`: what can find anything, see `checkers.checking.prefilter`. None: everything is asked.
    """
    crashed: dict[str, Reason] = {}

    def can_find(checker: Checker) -> bool:
        return selection is None or not checker.suspects(t) or checker.module in selection.modules

    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="checkers") as pool:
        begun = [pool.submit(_looked, t, checker, crashed) for checker in checkers if can_find(checker)]
        begun += [
            pool.submit(_by_rules, t, table, rules, crashed)
            for table, rules in _rules(t, checkers).items()
            if selection is None or table in selection.tables
        ]
    parts = [part for one in begun for part in one.result()]
    few = [row for part in parts for row in part.few]
    many = [part.many for part in parts if part.many is not None]
    if not many:
        return CollectedFindings(first_of_few(few, examples), crashed, causes_of_few(few))
    here = many[0].sparkSession.createDataFrame(pa.Table.from_pylist(few, FINDING))
    found = reduce(DataFrame.unionByName, many, here)
    rows = _first(found, examples)
    several = len({(run, name) for run, name, _ in rows}) > 1
    return CollectedFindings(rows, crashed, _caused(found) if several else set())


def _rules(t: Tables | ExternalTables, checkers: Sequence[Checker]) -> dict[str, dict[Checker, list[Rule]]]:
    """By table and checker: the rules over single rows."""
    found: dict[str, dict[Checker, list[Rule]]] = defaultdict(lambda: defaultdict(list))
    for checker in checkers:
        for rule in checker.rules(t):
            found[rule.table][checker].append(rule)
    return found


def _by_rules(
    t: Tables | ExternalTables, table: str, of: Mapping[Checker, list[Rule]], crashed: dict[str, Reason]
) -> list[QueryFindings]:
    """What the rules over one table find, in one query; if that fails, those of each checker in its own."""

    def asked(rules: Sequence[Rule]) -> QueryFindings:
        return _found(apply_rules(getattr(t, table), rules))

    try:
        return [asked([rule for rules in of.values() for rule in rules])]
    except SPARK_ERRORS as error:
        if has_ended():
            raise
        log.warning("a rule over %s crashed: each checker's are asked alone", table, exc_info=error)
    parts = [_guarded(checker, partial(asked, rules), crashed) for checker, rules in of.items()]
    return [part for part in parts if part is not None]


def _looked(t: Tables | ExternalTables, checker: Checker, crashed: dict[str, Reason]) -> list[QueryFindings]:
    """What a checker finds by more than a row."""

    def find() -> QueryFindings | None:
        found = checker.find(t)
        return _found(found) if found is not None else None

    found = _guarded(checker, find, crashed)
    return [found] if found is not None else []


def _found(findings: DataFrame) -> QueryFindings:
    """Here, if they are few; most runs have none."""
    few = findings.limit(FEW + 1).collect()
    return (
        QueryFindings(few=[row.asDict() for row in few])
        if len(few) <= FEW
        else QueryFindings(many=checkpoint(findings))
    )


def _guarded(checker: Checker, act: Callable[[], T], crashed: dict[str, Reason]) -> T | None:
    """Return what `act` returns. If the checker crashes, note it in `crashed` and return None.

    Raises if Spark is gone.
    """
    try:
        return act()
    except SPARK_ERRORS as error:
        if has_ended():
            raise
        log.error("checker %s crashed", checker.module, exc_info=error)
        for anomaly in checker.anomalies:
            text = f"the check of {anomaly} crashed: {last_cause(str(error))}"
            crashed[anomaly] = Reason(ReasonCode.CHECK_CRASHED, text, anomaly)
        return None


def _first(findings: DataFrame, examples: int) -> dict[tuple[int, str, bool], Findings]:
    """How many there are of each, and the first of them. Most runs have none: then one job says so."""
    by = ["run", "anomaly", "absence"]
    counts = findings.groupBy(*by).agg(F.count(F.lit(1)).alias("count")).toArrow().to_pylist()
    found = {(row["run"], row["anomaly"], row["absence"]): Findings(row["count"]) for row in counts}
    if not found:
        return found
    # One of each operation before a second one of any: ten of one transaction would tell one thing ten times.
    own = F.coalesce(F.get("ops", F.lit(0)), F.lit(-1) - F.get("position", F.lit(0)))
    in_op = F.row_number().over(Window.partitionBy(*by, own).orderBy("position", "detail"))
    ranked = F.row_number().over(Window.partitionBy(*by).orderBy("turn", "position", "detail"))
    first = findings.withColumn("turn", in_op).withColumn("rank", ranked)
    first = first.where(F.col("rank") <= examples).orderBy(*by, "rank")
    for row in first.select(*by, "position", "detail").toArrow().to_pylist():
        finding = found[row["run"], row["anomaly"], row["absence"]]
        finding.positions.append(row["position"])
        finding.examples.append(json.loads(row["detail"]))
    return found


def _caused(findings: DataFrame) -> set[tuple[int, str, str]]:
    """Which anomaly follows from which: every finding of the effect shares an operation with one of the
    cause.
    """
    numbered = findings.withColumn("id", F.monotonically_increasing_id())
    touched = numbered.select("run", "anomaly", "id", F.explode("ops").alias("op")).where("op is not null")
    causes = touched.select("run", "op", F.col("anomaly").alias("cause")).distinct()
    shared = (
        touched.join(causes, on=["run", "op"], how="inner")
        .where("anomaly != cause")
        .groupBy("run", "anomaly", "cause")
        .agg(F.countDistinct("id").alias("shared"))
    )
    counts = findings.groupBy("run", "anomaly").agg(F.count(F.lit(1)).alias("all"))
    rows = shared.join(counts, on=["run", "anomaly"], how="inner").where(F.col("shared") == F.col("all"))
    table = rows.select("run", "anomaly", "cause").toArrow()
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))
