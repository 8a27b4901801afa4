"""Check stored runs: all of them in one Spark job. If the job fails, split the batch to isolate the bad run."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from msgspec import structs
from pyspark.sql import SparkSession

from checkers.checker import EXTERNAL_HISTORIES, PREMISES, Checker
from checkers.checking.run_checks import CheckOutput, Phase, no_progress, run_checkers
from checkers.contrasts.conclude import conclude, undecided_rows, without_evidence
from checkers.contrasts.dimensions import RunFacts
from checkers.contrasts.subjects import RunSubjects
from checkers.findings import PERMITTED_SUFFIX, Findings
from checkers.gaps.facts import ENDS
from checkers.gaps.registry import MissingEvidence, find_gaps
from checkers.gaps.rule import EvidenceCounts
from checkers.needs import missing_needs, parts_not_checked
from checkers.registry import CHECKERS, INDETERMINATE, STORE_CHECKERS, checker_of
from checkers.spark.errors import translate_spark_errors
from checkers.spark.frames import freeing_checkpoints
from checkers.spark.settings import settings_for_rows
from checkers.stored.prepared_sources import hide_journals, join_by_correlation_key
from checkers.stored.sources import INLINE_ROWS, StoredRun, count_rows, read_sources
from checkers.stored.tables import make_tables
from harness.common.errors import EnvironmentFailure, FencepostError
from harness.common.wording import join_words
from harness.model.vocabulary import Premise
from harness.results.conclusions import NotDecided
from harness.results.example import Example
from harness.results.reasons import EXTERNAL_ONLY, Reason, ReasonCode
from harness.results.verdict import EXAMPLES, STAGE, AnomalyFindings, CheckResult, IndeterminateOperations

__all__ = ["StoredRun", "check_each_run", "check_runs"]

log = logging.getLogger(__name__)

BY_TIME = "dirty-read by time"
"""The name in `not_checked` of the clause of dirty-read that compares two clocks."""
BY_KEY, AT_GROWTH = "order-violation of outputs without a key", "order-violation where a topic grew"
OF_INTERMEDIATE = "order-violation of intermediate records"
"""The names in `not_checked` of outputs whose order was not checked, or only in part."""
BY_COMMITS = "lost-commit by offsets"
"""The name in `not_checked` of the clause of lost-commit that needs each offset commit."""


class NumberedRun(Protocol):
    """A run or a history to check."""

    @property
    def run(self) -> int:
        """The number of the run in the tables."""
        ...


RunT = TypeVar("RunT", bound=NumberedRun)
ResultOrError = CheckResult | FencepostError


@dataclass(frozen=True)
class BatchResults:
    """The results of one job."""

    by_run: Mapping[int, ResultOrError]
    crashed: bool  # a check crashed, and it is not known which run caused it


def check_runs(
    spark: SparkSession,
    runs: Sequence[StoredRun],
    *,
    examples: int = EXAMPLES,
    phase: Phase = no_progress,
    inline_rows: int = INLINE_ROWS,
    least_rows: int = 0,
) -> dict[int, CheckResult]:
    """Check runs, and return the result of each by its number. A checker that crashes does not stop the others.

    Args:
        examples: how many examples of each anomaly are kept
        phase: is called with the name of each phase when it begins
        inline_rows: Spark reads tables with more rows from files
        least_rows: Spark gets the settings for so many rows, even if the runs have fewer

    Raises:
        UnreadableInput: a table is missing or damaged.
        AnalysisFailed: the Spark job failed.
        EnvironmentFailure: Spark is gone.
    """
    output = _run_job(spark, runs, examples, phase, inline_rows, least_rows)
    return {run.run: _check_result(run, output, examples) for run in runs}


def check_each_run(
    spark: SparkSession, runs: Sequence[StoredRun], *, examples: int = EXAMPLES, phase: Phase = no_progress
) -> dict[int, CheckResult | FencepostError]:
    """Check runs as `check_runs` does. If the job fails because of one run, only that run gets an error."""

    def check_part(part: Sequence[StoredRun]) -> BatchResults:
        output = _run_job(spark, part, examples, phase)
        return BatchResults(
            {run.run: _check_result(run, output, examples) for run in part}, bool(output.crashed)
        )

    return check_in_parts(runs, check_part)


def _run_job(
    spark: SparkSession,
    runs: Sequence[StoredRun],
    examples: int,
    phase: Phase,
    inline_rows: int = INLINE_ROWS,
    least_rows: int = 0,
) -> CheckOutput:
    """Run all checkers over these runs in one job. Raises only exceptions of `harness.common.errors`."""
    with translate_spark_errors(), freeing_checkpoints(spark):
        phase("shared tables")
        contents = frozenset(run.run for run in runs if run.without_journals)
        with settings_for_rows(spark, lambda: max(least_rows, count_rows(runs))):
            recorded = read_sources(spark, runs, inline_rows=inline_rows)
            sources = join_by_correlation_key(hide_journals(recorded, runs), runs)
            tables = make_tables(sources)
            return run_checkers(sources, tables, (*STORE_CHECKERS, INDETERMINATE), examples, phase, contents)


def _check_result(run: StoredRun, output: CheckOutput, examples: int) -> CheckResult:
    facts = EvidenceCounts.gather(output.facts.get(run.run, ()))
    lacking = missing_needs(
        facts,
        healed=run.healed,
        transactions=run.promises is None or run.promises.transactions,
        offsets_within=run.promises is None or run.promises.offsets_within,
        free_stages=run.promises.free_stages if run.promises else (),
        refused_logs=run.refused_logs,
    )
    missing = find_gaps(facts, run)
    not_checked = {
        name: EXTERNAL_ONLY
        for checker in CHECKERS
        if checker.applies_to == EXTERNAL_HISTORIES
        for name in checker.anomalies
    }
    anomalies: dict[str, AnomalyFindings] = {}
    # A run cannot be valid if the outputs of its inputs were not checked.
    undecided = {lacking[need].text: lacking[need] for need in ("group-offsets",) if need in lacking}
    for checker in STORE_CHECKERS:
        for name in checker.anomalies:
            broken = [PREMISES[premise] for premise in checker.premises if premise in run.broken_premises]
            if broken and checker.family == "inputs":
                undecided |= {premise.text: premise for premise in broken}
            broken += [lacking[need] for need in checker.needs if need in lacking]
            if missing.contradiction:
                broken.append(missing.contradiction)
            if broken:
                not_checked[name] = broken[0]
                continue
            finding, permitted = (
                _select_findings(run, checker, finding_name, output, missing, examples)
                for finding_name in (name, name + PERMITTED_SUFFIX)
            )
            if finding or permitted:
                anomalies[name] = with_wording(
                    name, _anomaly_findings(run, checker, name, finding, permitted)
                )
    about = RunFacts.of(run, facts.partitions)
    subjects = output.subjects.get(run.run, RunSubjects())
    for name, findings in anomalies.items():
        if not _rests_on_gaps(run, checker_of(name), missing):
            anomalies[name] = conclude(name, findings, subjects, about)
    not_checked |= _clauses_not_checked(run, facts, not_checked)
    not_checked |= parts_not_checked(facts, run, not_checked)
    return CheckResult(
        anomalies={name: with_cause(run.run, name, anomalies, output.caused) for name in anomalies},
        not_checked=not_checked,
        broken={**output.crashed, **missing.reasons, **undecided},
        checked=[name for checker in STORE_CHECKERS for name in checker.anomalies if name not in not_checked],
        coverage=_coverage(run, facts, lacking),
        stats={
            name: facts.numbers[name]
            for name in ("ops", "ok", "fail", "info", *(f"info_{end}" for end in ENDS))
        },
        unsettled=indeterminate_operations(run.run, output.findings),
        not_decided=_not_decided(run, output, missing, not_checked, about),
    )


def _rests_on_gaps(run: StoredRun, checker: Checker, missing: MissingEvidence) -> bool:
    """Return whether an absence is no finding of this checker, because evidence is missing."""
    return bool(run.incomplete) or bool(missing.tables.intersection(checker.rests_on))


def _not_decided(
    run: StoredRun,
    output: CheckOutput,
    missing: MissingEvidence,
    not_checked: Collection[str],
    about: RunFacts,
) -> list[NotDecided]:
    """Return what the checks that were made could not decide."""
    subjects, findings = output.subjects.get(run.run, RunSubjects()), output.by_run.get(run.run, {})
    undecided: list[NotDecided] = []
    for checker in STORE_CHECKERS:
        gaps = list(missing.reasons.values()) if _rests_on_gaps(run, checker, missing) else []
        for name in set(checker.anomalies) - set(not_checked):
            undecided += undecided_rows(checker, name, findings, subjects, about)
            absent = findings.get((name, True))
            if gaps and absent:
                undecided.append(without_evidence(name, absent, gaps[0], subjects, about))
    return undecided


def _clauses_not_checked(
    run: StoredRun, facts: EvidenceCounts, not_checked: Collection[str]
) -> dict[str, Reason]:
    """Return the clauses of checks that had no evidence, with reasons. The other clauses of these checks were
    checked.
    """
    reasons: dict[str, Reason] = {}
    if run.one_clock_ms is None and "dirty-read" not in not_checked:
        broken = Premise.ONE_CLOCK in run.broken_premises
        reasons[BY_TIME] = (
            PREMISES[Premise.ONE_CLOCK]
            if broken
            else Reason(ReasonCode.CLOCK_DRIFT, _why_no_clock(run), BY_TIME)
        )
    if "lost-commit" not in not_checked and (reason := _why_commits_not_checked(facts, run)):
        reasons[BY_COMMITS] = reason
    if "order-violation" not in not_checked:
        reasons |= _orders_not_checked(facts)
    return reasons


def _orders_not_checked(facts: EvidenceCounts) -> dict[str, Reason]:
    """Return the outputs whose order was not checked, or only in part, with reasons."""
    rows = [row for row in facts.partitions.values() if not row["internal"]]
    outputs = {row["topic"] for row in rows if row.get("outputs")}
    without_key = {row["topic"] for row in rows if row.get("outputs_without_key")}
    grown = outputs & {row["topic"] for row in rows if row["growths"]}
    words = {
        BY_KEY: (without_key, "outputs without a key have no order that could be checked: see {}"),
        AT_GROWTH: (
            grown,
            "{} got more partitions during the run: whether a key changed its partition only then was not checked",
        ),
        OF_INTERMEDIATE: (
            facts.intermediate,
            "it is not known which stage made the intermediate records of {}, and not every stage promises order",
        ),
    }
    return {
        name: Reason(ReasonCode.ORDER_NOT_KNOWN, sentence.format(join_words(sorted(topics))), name)
        for name, (topics, sentence) in words.items()
        if topics
    }


def _coverage(run: StoredRun, facts: EvidenceCounts, lacking: Collection[str]) -> dict[str, int]:
    """Count what the run exercised. Without journals the transaction log says which transactions were committed."""
    numbers = facts.numbers
    ended = {name: numbers[name] for name in ("committed", "aborted")}
    if not run.journaled:
        ended = {name: count + numbers[f"log_{name}"] for name, count in ended.items()}
    return {
        "inputs": 0 if "inputs" in lacking else facts.total("inputs"),
        "outputs": facts.total("outputs"),
        **ended,
        "fenced": numbers["fenced"],
        **{key: count for key, count in facts.counted_for_goals().items() if key in run.goals},
    }


def _why_commits_not_checked(facts: EvidenceCounts, run: StoredRun) -> Reason | None:
    """Return why a missing offset commit would not be noticed. None: it would be noticed."""
    promised = run.promises is None or run.promises.offsets_within
    groups = {stage["group"] for stage in facts.stages if stage.get("group") is not None}
    unnamed = sorted(groups.difference(facts.numbers["named_groups"] or ()))
    if not (run.journaled and promised and unnamed and facts.numbers["claiming"]):
        return None
    if facts.numbers["offsets_whole"]:
        words = (
            f"no transactional offset commit of {join_words(unnamed)} is stored, or one names no operation"
        )
    else:
        words = "the log of offset commits is compacted or not stored: an absent offset commit proves nothing"
    remedy = ReasonCode.NO_OFFSETS_WITHIN.remedy if facts.numbers["offsets_whole"] else ""
    return Reason(ReasonCode.OFFSET_COMMITS_NOT_NAMED, words, BY_COMMITS, remedy)


def _why_no_clock(run: StoredRun) -> str:
    """Say why the times of brokers and of clients cannot be compared."""
    if run.drifted:
        why = f"the wall clock moved by {run.clock_drift_ms:.0f} ms against the monotonic one during the run"
    elif not run.drift_known:
        why = "it is not known how far the wall clock moved against the monotonic one"
    else:
        why = "it is not known when the run began by the wall clock"
    return f"{why}, so no time was compared with the time of a commit marker"


def _anomaly_findings(
    run: StoredRun, checker: Checker, name: str, finding: Findings | None, permitted: Findings | None
) -> AnomalyFindings:
    """Make the findings of an anomaly from the findings that count, or if there are none, from the permitted ones."""
    by = "Kafka" if name in checker.always_allowed else run.allowed.get(name)
    if finding is None and by is None:
        by = STAGE
    shown = finding or permitted or Findings()
    return AnomalyFindings(
        count=shown.count,
        examples=shown.examples,
        allowed=checker.warning or by is not None,
        warning=checker.warning,
        allowed_by=by,
        permitted=permitted.count if finding and permitted else 0,
    )


def indeterminate_operations(
    run: int, findings: Mapping[tuple[int, str, bool], Findings]
) -> IndeterminateOperations:
    """Return the operations of one run that remain indeterminate."""
    remaining = findings.get((run, INDETERMINATE.anomalies[0], False), Findings())
    return IndeterminateOperations(
        remaining.count, [example.first_operation for example in remaining.examples]
    )


def _select_findings(
    run: StoredRun, checker: Checker, name: str, output: CheckOutput, missing: MissingEvidence, examples: int
) -> Findings | None:
    """Select the findings that count: those that rest on an absence count only if the evidence is complete."""
    incomplete = _rests_on_gaps(run, checker, missing)
    parts = [
        output.findings.get((run.run, name, absence))
        for absence in ((False,) if incomplete else (False, True))
    ]
    present = [part for part in parts if part is not None]
    if not present:
        return None
    pairs = [pair for part in present for pair in zip(part.positions, part.examples, strict=True)]
    pairs.sort(key=lambda pair: pair[0])
    return Findings(sum(part.count for part in present), [example for _, example in pairs[:examples]])


def with_wording(
    anomaly: str, findings: AnomalyFindings, line: Callable[[Example], str] | None = None
) -> AnomalyFindings:
    """Add the words, meaning and sentences that the findings do not have yet.

    Args:
        line: describes an example; None: the anomaly's own sentence
    """
    wording = checker_of(anomaly).wording(anomaly)
    return structs.replace(
        findings,
        words=findings.words or wording.describe_count(findings.count),
        meaning=findings.meaning or wording.meaning,
        sentences=findings.sentences
        or [(line or wording.sentence)(example) for example in findings.examples],
    )


def with_cause(
    run: int, name: str, anomalies: Mapping[str, AnomalyFindings], caused: set[tuple[int, str, str]]
) -> AnomalyFindings:
    """Add the cause, if the anomaly follows from another one that was found and is not allowed."""
    finding = anomalies[name]
    for because in checker_of(name).because:
        cause = anomalies.get(because.cause)
        if cause is None or cause.allowed:
            continue
        if not because.by_operation or (run, name, because.cause) in caused:
            return structs.replace(finding, because=because.cause)
    return finding


def check_in_parts(
    runs: Sequence[RunT], check: Callable[[Sequence[RunT]], BatchResults]
) -> dict[int, ResultOrError]:
    """Check the runs in one job. If the job fails or a check crashes, check each half in a separate job.

    One bad run among hundreds costs a few jobs more, and only it gets an error.

    Args:
        check: checks runs in one job

    Returns:
        By run number, the result or the error of that run.

    Raises:
        EnvironmentFailure: Spark is gone.
    """
    try:
        results = check(runs)
    except EnvironmentFailure:
        raise  # Spark is gone, so a smaller job would fail too
    except FencepostError as error:
        if len(runs) == 1:
            return {runs[0].run: error}
        log.warning("%s; checking the runs in smaller batches", error)
    else:
        if not results.crashed or len(runs) == 1:
            return dict(results.by_run)
        log.warning("a check crashed on one of %d runs; checking them in smaller batches", len(runs))
    half = len(runs) // 2
    return {**check_in_parts(runs[:half], check), **check_in_parts(runs[half:], check)}
