"""The one place where Spark runs: all findings of all runs, counted, and the first of them kept.

The order of the examples is stated by each checker (`position`, smallest first; then the detail's text).
`checkers.examples` says what an example holds.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.evidence import evidence
from checkers.examples import Finding, explain
from checkers.jvm import first_line
from checkers.registry import Checker
from checkers.sources import Sources
from checkers.tables import Tables, keep

log = logging.getLogger(__name__)

SPARK_ERRORS = (PySparkException, Py4JJavaError)


@dataclass
class Materialised:
    """All that the job brought home."""

    findings: dict[tuple[int, str, bool], Finding]  # by run, anomaly, absence
    facts: dict[int, list[tuple[str, str]]]  # by run: kind and detail of `evidence`
    crashed: dict[str, str]  # by anomaly: the first line of what went wrong
    caused: set[
        tuple[int, str, str]
    ]  # run, effect, cause: every finding of the effect shares an operation with it


def materialise(s: Sources, t: Tables, checkers: Sequence[Checker], examples: int) -> Materialised:
    """Run all checkers in one job; if that fails, one by one, so that the others still count."""
    crashed: dict[str, str] = {}
    found = {checker: frame for checker in checkers if (frame := _build(checker, t, crashed)) is not None}
    facts = _facts(evidence(s, t))
    try:
        return _together(s, t, list(found.values()), facts, crashed, examples)
    except SPARK_ERRORS as error:
        log.warning("the job of all checkers failed, so they run one by one: %s", first_line(error))
    alone = [_alone(checker, frame, crashed) for checker, frame in found.items()]
    sound = [frame for frame in alone if frame is not None]
    return _together(s, t, sound, facts, crashed, examples)


def _build(checker: Checker, t: Tables, crashed: dict[str, str]) -> DataFrame | None:
    try:
        return checker.find(t)
    except SPARK_ERRORS as error:
        _note(checker, error, crashed)
        return None


def _alone(checker: Checker, frame: DataFrame, crashed: dict[str, str]) -> DataFrame | None:
    try:
        return keep(frame)
    except SPARK_ERRORS as error:
        _note(checker, error, crashed)
        return None


def _note(checker: Checker, error: Exception, crashed: dict[str, str]) -> None:
    log.error("checker %s crashed", checker.module, exc_info=error)
    for anomaly in checker.anomalies:
        crashed[anomaly] = f"the check crashed: {first_line(error)}"


def _facts(frame: DataFrame) -> DataFrame:
    """Facts in the shape of what `_together` collects."""
    return frame.select(
        "run", "kind",
        F.lit(None).cast("boolean").alias("absence"),
        F.lit(None).cast("bigint").alias("count"),
        F.lit(None).cast("array<bigint>").alias("position"), "detail",
    )  # fmt: skip


def _together(
    s: Sources, t: Tables, found: list[DataFrame], facts: DataFrame, crashed: dict[str, str], examples: int
) -> Materialised:
    if not found:
        return Materialised({}, _gather(facts.toArrow())[1], crashed, set())
    findings = keep(reduce(DataFrame.unionByName, found))
    by = ["run", "anomaly", "absence"]
    counts = findings.groupBy(*by).agg(F.count(F.lit(1)).alias("count"))
    ranked = F.row_number().over(Window.partitionBy(*by).orderBy("position", "detail"))
    first = findings.withColumn("rank", ranked).where(F.col("rank") <= examples)
    collected = (
        facts.unionByName(counts.withColumnRenamed("anomaly", "kind"), allowMissingColumns=True)
        .unionByName(
            first.select("run", F.col("anomaly").alias("kind"), "absence", "position", "detail"),
            allowMissingColumns=True,
        )
        .toArrow()
    )
    rows, told = _gather(collected)
    caused = _caused(findings) if len({(run, name) for run, name, _ in rows}) > 1 else set()
    explain(s, t, rows, told)
    return Materialised(rows, told, crashed, caused)


def _gather(table: pa.Table) -> tuple[dict[tuple[int, str, bool], Finding], dict[int, list[tuple[str, str]]]]:
    """Sort the collected rows: counts, examples, facts."""
    findings: dict[tuple[int, str, bool], Finding] = defaultdict(Finding)
    facts: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for run, kind, absence, count, position, detail in zip(
        *(c.to_pylist() for c in table.columns), strict=True
    ):
        if absence is None:
            facts[run].append((kind, detail))
        elif count is not None:
            findings[run, kind, absence].count = count
        else:
            findings[run, kind, absence].positions.append(position)
            findings[run, kind, absence].examples.append(json.loads(detail))
    for finding in findings.values():
        order = sorted(
            range(len(finding.positions)),
            key=lambda at: (finding.positions[at], json.dumps(finding.examples[at])),
        )
        finding.examples = [finding.examples[at] for at in order]
        finding.positions = [finding.positions[at] for at in order]
    return dict(findings), dict(facts)


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
