"""From stored runs to what the checkers say of them: one Spark job for all of them."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from checkers.examples import Finding
from checkers.gaps import Facts, Gaps, gaps, missing_needs
from checkers.jvm import first_line
from checkers.materialise import SPARK_ERRORS, Materialised, materialise
from checkers.registry import STORE_CHECKERS, Checker, checker_of
from checkers.sources import StoredRun, read_sources
from checkers.tables import make_tables
from harness.errors import AnalysisFailed, EnvironmentFailure, FencepostError, UnreadableInput
from harness.verdict import Found, Judgement

__all__ = ["StoredRun", "judge", "judge_each"]

log = logging.getLogger(__name__)
UNREADABLE = re.compile(r"(?:FAILED_READ_FILE|error while reading file).*?(/\S+\.parquet)", re.DOTALL)


def judge(spark: SparkSession, runs: Sequence[StoredRun], *, examples: int = 10) -> dict[int, Judgement]:
    """What the checkers say of each run, by its number; at most `examples` of each anomaly are kept.
    Raises `UnreadableInput` where a table is missing or damaged, `EnvironmentFailure` where Spark is gone.
    A checker that crashes does not stop the others.
    """
    brought = _bring(spark, runs, examples)
    return {run.run: _judgement(run, brought, examples) for run in runs}


def judge_each(
    spark: SparkSession, runs: Sequence[StoredRun], *, examples: int = 10
) -> dict[int, Judgement | FencepostError]:
    """As `judge`, but a run on which the job fails spoils no other: it has its error, the rest their answers.

    The runs are halved until the failure stands alone, so one bad one among hundreds costs a few jobs more.
    """
    try:
        brought = _bring(spark, runs, examples)
    except EnvironmentFailure:
        raise  # Spark is gone: nothing more can be asked of it
    except FencepostError as error:
        if len(runs) == 1:
            return {runs[0].run: error}
        log.warning("%s; the runs are judged in parts", error)
    else:
        if not brought.crashed or len(runs) == 1:
            return {run.run: _judgement(run, brought, examples) for run in runs}
        log.warning("a check crashed on one of %d runs, which are judged in parts", len(runs))
    half = len(runs) // 2
    first, second = (judge_each(spark, part, examples=examples) for part in (runs[:half], runs[half:]))
    return {**first, **second}


def _bring(spark: SparkSession, runs: Sequence[StoredRun], examples: int) -> Materialised:
    """All checks of these runs, in one job; raises only errors of ours."""
    with spark_alive():
        try:
            sources = read_sources(spark, runs)
            return materialise(sources, make_tables(sources), STORE_CHECKERS, examples)
        except SPARK_ERRORS as error:
            if path := UNREADABLE.search(str(error)):
                raise UnreadableInput(f"{path[1]} is damaged: a part of it cannot be read") from error
            raise AnalysisFailed(f"the analysis failed: {first_line(error)}") from error


@contextmanager
def spark_alive() -> Iterator[None]:
    """Translate what is heard of a Spark that is gone."""
    try:
        yield
    except (Py4JError, ConnectionError, EOFError) as error:
        raise EnvironmentFailure(
            "Spark ended during the analysis, perhaps for want of memory: judge the stored run with "
            "`fencepost check STORE --spark-conf spark.driver.memory=4g`"
        ) from error


def _judgement(run: StoredRun, brought: Materialised, examples: int) -> Judgement:
    facts = Facts.gather(brought.facts.get(run.run, ()))
    lacking = missing_needs(facts, run.has_log)
    found = gaps(facts, run.has_log, had_log=run.had_log)
    if run.incomplete:
        found.add("run", "; ".join(run.incomplete))
    not_checked: dict[str, str] = {}
    anomalies: dict[str, Found] = {}
    for checker in STORE_CHECKERS:
        for name in checker.anomalies:
            reason = next((lacking[need] for need in checker.needs if need in lacking), None)
            if reason is not None:
                not_checked[name] = reason
            elif finding := _weigh(run, checker, name, brought, found, examples):
                by = "Kafka" if name in checker.always_allowed else run.allowed.get(name)
                anomalies[name] = Found(
                    count=finding.count,
                    examples=finding.examples,
                    allowed=checker.warning or by is not None,
                    warning=checker.warning,
                    allowed_by=by,
                )
    numbers = facts.numbers
    return Judgement(
        anomalies={name: with_cause(run.run, name, anomalies, brought.caused) for name in anomalies},
        not_checked=not_checked,
        broken={**brought.crashed, **found.sentences},
        coverage={
            "inputs": facts.total("inputs"),
            "outputs": facts.total("outputs"),
            **{name: numbers[name] for name in ("committed", "aborted", "fenced")},
        },
        stats={name: numbers[name] for name in ("ops", "ok", "fail", "info")},
    )


def _weigh(
    run: StoredRun, checker: Checker, name: str, brought: Materialised, found: Gaps, examples: int
) -> Finding | None:
    """The findings that count: those that rest on absence only where the evidence is whole."""
    blind = bool(run.incomplete) or bool(found.tables.intersection(checker.rests_on))
    parts = [
        brought.findings.get((run.run, name, absence)) for absence in ((False,) if blind else (False, True))
    ]
    there = [part for part in parts if part is not None]
    if not there:
        return None
    pairs = [pair for part in there for pair in zip(part.positions, part.examples, strict=True)]
    pairs.sort(key=lambda pair: pair[0])
    return Finding(sum(part.count for part in there), [example for _, example in pairs[:examples]])


def with_cause(
    run: int, name: str, anomalies: Mapping[str, Found], caused: set[tuple[int, str, str]]
) -> Found:
    """With its cause, if it follows from another anomaly that was found and is not allowed."""
    found = anomalies[name]
    for because in checker_of(name).because:
        cause = anomalies.get(because.cause)
        if cause is None or cause.allowed:
            continue
        if not because.by_operation or (run, name, because.cause) in caused:
            return replace(found, because=because.cause)
    return found
