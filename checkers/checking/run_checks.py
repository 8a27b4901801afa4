"""Run the checkers: select the queries that can find anything, count all findings of all runs, and keep the first ones.

Examples are in this order: one finding of each operation comes before a second one of any. Among them, they are ordered
by `position`, then by the text of the detail. `checkers.checking.explain` lists what an example has.

**The selection.** A run without anomalies has no row that matches a rule, and few that match a suspect. So one query
counts, for each shared table, the rows that match any of its rules and those that match a suspect of each checker. Only
tables and checkers with such rows are queried for findings. This saves nine queries of a run without anomalies. On a
warm Spark that is 0.5 to 1 s of a verdict of 5 s. Of a cold `fencepost check` it is 3 s of 18 s. This was measured in
turns with and without the selection, on two cores, with a run of 30 s.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from checkers.checker import Checker
from checkers.checking.explain import explain
from checkers.contrasts.subjects import RunSubjects, select_subjects
from checkers.external_tables import ExternalTables
from checkers.findings import FINDING, Findings, Rule, apply_rules
from checkers.gaps.facts import FACT_TABLES, facts_query, gather_facts, query_joins
from checkers.gaps.rule import Fact
from checkers.spark.driver import last_cause
from checkers.spark.errors import SPARK_ERRORS, has_ended
from checkers.spark.frames import checkpoint, local_table
from checkers.stored.sources import Sources
from checkers.stored.tables import Tables
from checkers.stored.tally import TableQuery, Tally, tally
from harness.common.errors import AnalysisFailed
from harness.results.example import Example
from harness.results.reasons import Reason, ReasonCode

log = logging.getLogger(__name__)

RULES = "a rule matches"
"""The name of the condition that counts the rows of a table for which any rule holds."""
SUSPECT_OF = "suspect of "
"""Prefix of the names of the conditions that count the suspects of a checker."""
PER_QUERY = 5
"""Tables counted in one query. Spark takes more than twice as long to plan a union of twice as many."""


AT_ONCE = 3
"""The number of queries for findings that run at the same time, and of queries that count rows. There is one for the
rules of each table, and one for each checker that needs more.

They are not one union, because Spark takes more than twice as long to plan it: it plans a union again whenever another
query is added.
"""
FEW = 5_000
"""The greatest number of findings of a query that are kept in memory."""
T = TypeVar("T")
Phase = Callable[[str], None]
"""Is called with the name of a phase when it begins."""


@dataclass
class CheckOutput:
    """The output of the job: findings, facts and crashes."""

    findings: dict[tuple[int, str, bool], Findings]  # by run, anomaly, absence
    facts: dict[int, list[Fact]]  # by run
    crashed: dict[str, Reason]  # by anomaly: the reason, with the first line of the error
    caused: set[tuple[int, str, str]]
    """Run, effect and cause: every finding of the effect shares an operation with one of the cause."""
    subjects: Mapping[int, RunSubjects] = field(default_factory=dict)
    """By run: what findings are about, if there are more than a few."""

    @cached_property
    def by_run(self) -> Mapping[int, Mapping[tuple[str, bool], Findings]]:
        """The findings of each run, by anomaly and absence."""
        by_run: dict[int, dict[tuple[str, bool], Findings]] = defaultdict(dict)
        for (run, name, absence), found in self.findings.items():
            by_run[run][name, absence] = found
        return by_run


@dataclass(frozen=True)
class Selection:
    """The tables with a row that matches a rule, and the modules of the checkers with a suspect."""

    tables: frozenset[str]
    modules: frozenset[str]


@dataclass(frozen=True)
class QueryFindings:
    """The findings of one query: as rows if they are few, otherwise in Spark."""

    few: Sequence[Mapping[str, Any]] = ()
    many: DataFrame | None = None


@dataclass
class CollectedFindings:
    """The findings of all checkers, before the examples are completed."""

    rows: dict[tuple[int, str, bool], Findings]
    crashed: dict[str, Reason]
    caused: set[tuple[int, str, str]]
    frame: DataFrame | None = None  # all findings; None: there are none


def no_progress(name: str) -> None:
    """Report no phases."""


def run_checkers(
    s: Sources,
    tables: Tables,
    checkers: Sequence[Checker],
    examples: int,
    phase: Phase = no_progress,
    contents: Collection[int] = (),
) -> CheckOutput:
    """Run all checkers, and gather the facts of each run at the same time.

    Args:
        examples: how many examples of each anomaly are kept
        contents: the runs whose records are shown with their content
    """
    phase("checks")
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="facts") as pool:
        counting = pool.submit(count_and_select, tables, checkers)
        joins = pool.submit(query_joins, s, tables)
        facts_future = pool.submit(lambda: gather_facts(s, tables, counting.result()[0], joins.result()))
        findings = collect(tables, checkers, examples, lambda: counting.result()[1])
        facts = facts_future.result()
    phase("examples")
    explain_all(s, tables, checkers, findings, facts, contents)
    subjects = {} if findings.frame is None else select_subjects(s, tables, findings.frame)
    return CheckOutput(findings.rows, facts, findings.crashed, findings.caused, subjects)


def explain_all(
    s: Sources,
    tables: Tables,
    checkers: Sequence[Checker],
    findings: CollectedFindings,
    facts: Mapping[int, list[Fact]],
    contents: Collection[int] = (),
) -> None:
    """Complete the examples, in place: first each checker adds its details, then `explain` adds records and operations.

    If a checker crashes here, its findings are kept.
    """
    for checker in checkers:
        by_run: dict[int, list[Findings]] = defaultdict(list)
        for (run, name, _), finding in findings.rows.items():
            if name in checker.anomalies:
                by_run[run].append(finding)
        _guarded(checker, partial(checker.explain, tables, by_run), findings.crashed)
    explain(s, tables, findings.rows, facts, contents)


def collect(
    tables: Tables | ExternalTables,
    checkers: Sequence[Checker],
    examples: int,
    select: Callable[[], Selection | None] = lambda: None,
) -> CollectedFindings:
    """Run the checkers on the shared tables, and keep the first `examples` findings of each anomaly.

    Args:
        select: waits for the queries that can find anything, see `count_and_select`. Meanwhile the queries run that no
            selection can leave out. None: all of them.
    """
    crashed: dict[str, Reason] = {}
    always = [checker for checker in checkers if not checker.suspects(tables)]
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="checkers") as pool:
        futures = [pool.submit(_by_query, tables, checker, crashed) for checker in always]
        selection = select()
        futures += [
            pool.submit(_by_query, tables, checker, crashed)
            for checker in checkers
            if checker not in always and (selection is None or checker.module in selection.modules)
        ]
        futures += [
            pool.submit(_by_rules, tables, table, rules, crashed)
            for table, rules in _rules(tables, checkers).items()
            if selection is None or table in selection.tables
        ]
    parts = [part for future in futures for part in future.result()]
    # Queries end in any order, and equal checks give equal verdicts.
    crashed = {name: crashed[name] for one in checkers for name in one.anomalies if name in crashed}
    few = [row for part in parts for row in part.few]
    many = [part.many for part in parts if part.many is not None]
    if not few and not many:
        return CollectedFindings({}, crashed, set())
    few_findings = local_table(SparkSession.active(), pa.Table.from_pylist(few, FINDING))
    union = reduce(DataFrame.unionByName, many, few_findings)
    rows = _rank(union, examples)
    several = len({(run, name) for run, name, _ in rows}) > 1
    return CollectedFindings(rows, crashed, _find_causes(union) if several else set(), union)


def _rules(
    tables: Tables | ExternalTables, checkers: Sequence[Checker]
) -> dict[str, dict[Checker, list[Rule]]]:
    """Return the rules by table and checker."""
    rules_of: dict[str, dict[Checker, list[Rule]]] = defaultdict(lambda: defaultdict(list))
    for checker in checkers:
        for rule in checker.rules(tables):
            rules_of[rule.table][checker].append(rule)
    return rules_of


def _by_rules(
    tables: Tables | ExternalTables,
    table: str,
    rules_of: Mapping[Checker, list[Rule]],
    crashed: dict[str, Reason],
) -> list[QueryFindings]:
    """Apply all rules over one table in one query; if it fails, those of each checker in a query of their own."""

    def apply(rules: Sequence[Rule]) -> QueryFindings:
        return _collect_if_few(apply_rules(getattr(tables, table), rules))

    try:
        return [apply([rule for rules in rules_of.values() for rule in rules])]
    except SPARK_ERRORS as error:
        if has_ended():
            raise
        log.warning(
            "a rule over %s crashed: the rules of each checker get a query of their own",
            table,
            exc_info=error,
        )
    parts = [_guarded(checker, partial(apply, rules), crashed) for checker, rules in rules_of.items()]
    return [part for part in parts if part is not None]


def _by_query(
    tables: Tables | ExternalTables, checker: Checker, crashed: dict[str, Reason]
) -> list[QueryFindings]:
    """Run the query of a checker that needs more than rules."""

    def run(make: Callable[[Tables | ExternalTables], DataFrame | None]) -> QueryFindings | None:
        part = make(tables)
        return _collect_if_few(part) if part is not None else None

    parts = [_guarded(checker, partial(run, make), crashed) for make in (checker.find, checker.undecided)]
    return [part for part in parts if part is not None]


def _collect_if_few(findings: DataFrame) -> QueryFindings:
    """Collect the findings if they are few. Most runs have none."""
    few = findings.limit(FEW + 1).collect()
    return (
        QueryFindings(few=[row.asDict() for row in few])
        if len(few) <= FEW
        else QueryFindings(many=checkpoint(findings))
    )


def _guarded(checker: Checker, act: Callable[[], T], crashed: dict[str, Reason]) -> T | None:
    """Return the result of `act`. If the checker crashes, note it in `crashed` and return None.

    Raises if Spark is gone.
    """
    try:
        return act()
    except (*SPARK_ERRORS, AnalysisFailed) as error:
        if has_ended():
            raise
        log.error("checker %s crashed", checker.module, exc_info=error)
        for anomaly in checker.anomalies:
            text = f"the check of {anomaly} crashed: {last_cause(str(error))}"
            crashed[anomaly] = Reason(ReasonCode.CHECK_CRASHED, text, anomaly)
        return None


def _rank(findings: DataFrame, examples: int) -> dict[tuple[int, str, bool], Findings]:
    """Count the findings of each anomaly, and keep the first of them."""
    by = ["run", "anomaly", "absence"]
    counts = findings.groupBy(*by).agg(F.count(F.lit(1)).alias("count")).toArrow().to_pylist()
    by_key = {(row["run"], row["anomaly"], row["absence"]): Findings(row["count"]) for row in counts}
    # One finding of each operation comes first, because many findings of one transaction say the same.
    operation = F.coalesce(F.get("ops", F.lit(0)), F.lit(-1) - F.get("position", F.lit(0)))
    in_op = F.row_number().over(Window.partitionBy(*by, operation).orderBy("position", "detail"))
    ranked = F.row_number().over(Window.partitionBy(*by).orderBy("turn", "position", "detail"))
    first = findings.withColumn("turn", in_op).withColumn("rank", ranked)
    first = first.where(F.col("rank") <= examples).orderBy(*by, "rank")
    for row in first.select(*by, "position", "detail").toArrow().to_pylist():
        finding = by_key[row["run"], row["anomaly"], row["absence"]]
        finding.positions.append(row["position"])
        finding.examples.append(Example.from_json(json.loads(row["detail"])))
    return by_key


def _find_causes(findings: DataFrame) -> set[tuple[int, str, str]]:
    """Return run, effect and cause, where every finding of the effect shares an operation with one of the cause."""
    numbered = findings.withColumn("id", F.monotonically_increasing_id())
    operations = numbered.select("run", "anomaly", "id", F.explode("ops").alias("op")).where("op is not null")
    causes = operations.select("run", "op", F.col("anomaly").alias("cause")).distinct()
    shared_counts = (
        operations.join(causes, on=["run", "op"], how="inner")
        .where("anomaly != cause")
        .groupBy("run", "anomaly", "cause")
        .agg(F.countDistinct("id").alias("shared"))
    )
    counts = findings.groupBy("run", "anomaly").agg(F.count(F.lit(1)).alias("all"))
    rows = shared_counts.join(counts, on=["run", "anomaly"], how="inner").where(
        F.col("shared") == F.col("all")
    )
    table = rows.select("run", "anomaly", "cause").toArrow()
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))


def count_and_select(t: Tables, checkers: Sequence[Checker]) -> tuple[Tally, Selection | None]:
    """Count the facts, and select the queries that can find anything.

    Returns:
        The counts and the selection. The selection is None if a condition of a checker crashed: then every checker is
            queried, so that the crash is reported for that checker.
    """
    by_table = _conditions(t, checkers)
    try:
        counts = _tallied(t, by_table)
    except SPARK_ERRORS as error:
        if has_ended():
            raise
        log.warning("a condition crashed: every checker is queried", exc_info=error)
        return _tallied(t, {}), None
    modules = {
        name.removeprefix(SUSPECT_OF)
        for table, conditions in by_table.items()
        for name in conditions
        if name != RULES and counts.any_row_matches(table, name)
    }
    tables = {table for table in by_table if counts.any_row_matches(table, RULES)}
    return counts, Selection(frozenset(tables), frozenset(modules))


def _tallied(tables: Tables, conditions: Mapping[str, Mapping[str, str]]) -> Tally:
    """Count the facts and the rows for which each of the wanted conditions holds."""
    parts = [
        _counted(tables, table, conditions.get(table, {})) for table in sorted({*FACT_TABLES, *conditions})
    ]
    queries = [parts[first : first + PER_QUERY] for first in range(0, len(parts), PER_QUERY)]
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="tally") as pool:
        return reduce(Tally.__or__, pool.map(tally, queries))


def _counted(tables: Tables, table: str, conditions: Mapping[str, str]) -> TableQuery:
    facts = facts_query(tables, table)
    if facts is None:
        return TableQuery(table, getattr(tables, table), conditions)
    return replace(facts, conditions={**facts.conditions, **conditions})


def _conditions(tables: Tables, checkers: Sequence[Checker]) -> dict[str, dict[str, str]]:
    """By table and name, the conditions that select queries."""
    matches: dict[str, list[str]] = defaultdict(list)
    suspects: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for checker in checkers:
        for rule in checker.rules(tables):
            matches[rule.table].append(rule.condition)
        for suspect in checker.suspects(tables):
            suspects[suspect.table][checker.module].append(f"({suspect.where})")
    return {
        table: {
            **({RULES: " or ".join(matches[table])} if table in matches else {}),
            **{SUSPECT_OF + module: " or ".join(parts) for module, parts in suspects[table].items()},
        }
        for table in {*matches, *suspects}
    }
