"""From stored runs to verdicts: check the tables, and decide from the findings and the run metadata."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.checking.stored_runs import StoredRun, check_each_run
from checkers.histories.check import check_files, history_damaged, merge_history
from checkers.stored.sources import Growth
from fencepost.checks.evidence import Evidence, require_bounded_ranges, require_evidence, require_table
from fencepost.checks.run_files import RULES, StoredFiles, describe_gaps
from fencepost.checks.verdict_rules import decide, heals_known
from harness.common.errors import AnalysisFailed, FencepostError, UnreadableInput, value_or_error
from harness.model.pipeline import JOINED
from harness.model.promises import HISTORY_FILE
from harness.model.vocabulary import Fate
from harness.record.client_history import file_crc
from harness.record.naming import split_partition
from harness.record.parquet import has_tables, read_parquet
from harness.record.run_tables import PLAN
from harness.record.schema import HISTORY, LOG
from harness.record.table_reader import RunTables
from harness.record.timeline.partition_offsets import batches_of
from harness.results.example import Record
from harness.results.reasons import KILLED, Reason, ReasonCode
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import CALLER, EXAMPLES, AnomalyFindings, CheckResult, Verdict
from harness.settings.run_file import StoredPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MOST_ID = 2**63 - 1
"""The largest number of a run. Every row of its tables has it."""
STOPPED_BEFORE_DRAINED = frozenset({ReasonCode.NOT_DRAINED, ReasonCode.INPUTS_LEFT})
"""Problems that mean that stages were stopped before they had read all inputs."""


def open_evidence(history: str, folder: Path) -> Evidence:
    """Open the evidence of a run. If it was killed, make its tables from the journals. Raises `UnreadableInput`."""
    plan = StoredPlan.load(folder / PLAN)
    number = str(plan.run.get("id", ""))
    if not (number.isascii() and number.isdecimal() and len(number) < 20 and int(number) <= MOST_ID):
        raise UnreadableInput(
            f"{folder / PLAN} does not say which run it is: [run] id is missing, or no number from 0 to {MOST_ID}"
        )
    require_evidence(folder)
    metadata = folder / "metadata.json"
    run_metadata = RunMetadata.load(metadata) if metadata.exists() else None
    if not has_tables(folder) and not (folder / "verdict.json").exists():
        from harness.witness.tabulate import tabulate  # local, because it loads a client library

        try:
            tabulate(
                folder, int(number), plan.pipeline, plan.promises
            )  # the run was killed before it made the tables
        except (
            TypeError,
            ValueError,
            LookupError,
            OverflowError,
        ) as error:  # Arrow raises subclasses of these
            raise UnreadableInput(
                f"the journals of {folder} are not as the run wrote them ({type(error).__name__}: {error})"
            ) from error
    for subfolder, tables in (("history", HISTORY), ("log", LOG)):
        if subfolder == "history" or (folder / subfolder).exists():
            for table in tables:
                require_table(
                    folder / subfolder / f"{table}.parquet",
                    int(number),
                    run_metadata.rows if run_metadata else {},
                )
    try:
        require_bounded_ranges(folder)
        differences: tuple[str, ...] = (KILLED.text,)
        if run_metadata:
            differences = tuple(describe_gaps(RULES, StoredFiles(folder, plan, run_metadata)))
        evidence = Evidence(history, folder, plan, run_metadata, differences)
        _validate(evidence)
    except OSError as error:
        raise UnreadableInput(f"a table of {folder} is damaged: {str(error).splitlines()[0]}") from error
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise UnreadableInput(
            f"{folder}: {PLAN} or metadata.json is not as the run wrote it ({type(error).__name__}: {error})"
        ) from error
    return evidence


def _validate(evidence: Evidence) -> None:
    """Read all values of run.toml and metadata.json that a verdict needs. Raises various errors if they are damaged."""
    run_metadata = evidence.run_metadata or RunMetadata()
    names = evidence.plan.workload.get("allowed", [])
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"`allowed` must be a list of names, not {names!r}")
    numbers = {
        "clock_drift_ms": run_metadata.clock_drift_ms,
        "rested_ms": run_metadata.rested_ms,
        "monotonic_ns_at_zero": evidence.plan.run.get("monotonic_ns_at_zero"),
        "wall_ms_at_zero": evidence.plan.run.get("wall_ms_at_zero"),
        "session_timeout_ms": evidence.plan.run.get("session_timeout_ms"),
    }
    for name, number in numbers.items():
        if number is not None and (type(number) not in (int, float) or not math.isfinite(number)):
            raise TypeError(f"{name} must be a number, not {number!r}")
    _ = evidence.broken_premises
    decide(evidence, CheckResult({}, {}, {}))


def check_stored_runs(
    spark: "SparkSession",
    runs: Sequence[Evidence],
    allow: frozenset[str] = frozenset(),
    phase: Callable[[str], None] = lambda name: None,
    examples: int = EXAMPLES,
) -> list[Verdict | FencepostError]:
    """Check all runs in one job and decide their verdicts. If a run has no verdict, its result is the error.

    Copies of a run have the same run number, so each copy is checked in a further job.

    Args:
        allow: Anomalies that the caller permits, in addition to those of the workload.
        phase: Called with the name of each step when it begins.
        examples: How many examples of each anomaly are kept.
    """
    if not runs:
        return []
    first = {evidence.run: evidence for evidence in reversed(runs)}
    copies = [evidence for evidence in runs if first[evidence.run] is not evidence]
    verdicts = _check_runs_in_one_job(spark, list(first.values()), allow, phase, examples)
    later = dict(zip(map(id, copies), check_stored_runs(spark, copies, allow, phase, examples), strict=True))
    return [later[id(run)] if id(run) in later else verdicts[run.run] for run in runs]


def check_stored_run(
    spark: "SparkSession", run: Evidence, phase: Callable[[str], None], examples: int = EXAMPLES
) -> Verdict:
    """Check one run and decide its verdict. Raises `FencepostError` if it has none."""
    (result,) = check_stored_runs(spark, [run], phase=phase, examples=examples)
    if isinstance(result, FencepostError):
        raise result
    return result


def _check_runs_in_one_job(
    spark: "SparkSession",
    runs: Sequence[Evidence],
    allow: frozenset[str],
    phase: Callable[[str], None],
    examples: int,
) -> dict[int, Verdict | FencepostError]:
    """Check runs whose numbers differ and decide their verdicts. Returns the results by run number."""
    stored = [_stored_run(evidence, allow) for evidence in runs]
    own = check_each_run(spark, stored, examples=examples, phase=phase)
    results = _with_histories(spark, runs, stored, own, phase)
    return {evidence.run: _verdict_or_error(evidence, results[evidence.run]) for evidence in runs}


def _verdict_or_error(evidence: Evidence, result: CheckResult | FencepostError) -> Verdict | FencepostError:
    if isinstance(result, FencepostError):
        return name_damaged_table(evidence, result)
    return value_or_error(
        lambda: decide(evidence, result),
        AnalysisFailed,
        lambda error: f"no verdict was decided from the findings of {evidence.folder} ({error})",
    )


def _with_histories(
    spark: "SparkSession",
    runs: Sequence[Evidence],
    stored: "Sequence[StoredRun]",
    results: Mapping[int, CheckResult | FencepostError],
    phase: Callable[[str], None],
) -> Mapping[int, CheckResult | FencepostError]:
    """Add the findings from the clients' histories, for each run that promised a history. This takes one more job."""
    with_history = [run for run in runs if run.plan.promises.history]
    if not with_history:
        return results
    phase("the clients' history")
    files = {
        n: run.folder / HISTORY_FILE
        for n, run in enumerate(with_history)
        if (run.folder / HISTORY_FILE).is_file()
    }
    file_results = check_files(spark, files, frozenset(), phase)
    allowed = {run.run: run.allowed for run in stored}
    merged = dict(results)
    for n, run in enumerate(with_history):
        table_result = results[run.run]
        if isinstance(table_result, CheckResult):
            history_result = _changed_history(run) or _history_result(file_results.get(n))
            both = merge_history(table_result, history_result, allowed[run.run])
            of_history = [each for name, each in both.anomalies.items() if name not in table_result.anomalies]
            try:
                add_fates(RunTables(run.folder), of_history)
                merged[run.run] = both
            except UnreadableInput as error:
                merged[run.run] = error
    return merged


def add_fates(tables: RunTables, findings_of_history: Iterable[AnomalyFindings]) -> None:
    """Add what the broker log says about the records of the examples, in place. The history has no log."""
    records: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for findings in findings_of_history:
        parts = (part for example in findings.examples for part in example.parts())
        for record in (part for part in parts if isinstance(part, Record)):
            topic, partition, offset = (record.get(name) for name in ("topic", "partition", "offset"))
            tp = tables.numbers.get((str(topic), partition))
            if tp is not None and offset is not None and record.get("fate") is None:
                records[tp, offset].append(record)
    for position, batch in batches_of(tables, records).items():
        fate = (batch["marker"] or Fate.OPEN.value) if batch["transactional"] else Fate.PLAIN.value
        facts = {name: batch[name] for name in ("producer_id", "epoch", "marker_offset")}
        for record in records[position]:
            record.facts |= {
                name: fact for name, fact in (facts | {"fate": fate}).items() if fact is not None
            }


def _history_result(result: CheckResult | FencepostError | None) -> CheckResult | Reason:
    """The result of a history, or the reason why it could not be checked."""
    if result is None:
        return history_damaged("it is missing")
    return result if isinstance(result, CheckResult) else history_damaged(f"it cannot be checked: {result}")


def _changed_history(evidence: Evidence) -> Reason | None:
    """The reason why a history is not evidence: it has changed since the run. None if it has not changed.

    For a run that was killed, the history was made from its journals just now.
    """
    path = evidence.folder / HISTORY_FILE
    if (
        evidence.run_metadata is None
        or not path.is_file()
        or file_crc(path) == evidence.run_metadata.history_crc
    ):
        return None
    return history_damaged("the file is not as the run wrote it")


def name_damaged_table(evidence: Evidence, error: FencepostError) -> FencepostError:
    """If a table of the run is damaged, replace the error by one that names the table. Spark does not name it."""
    if isinstance(error, AnalysisFailed):
        for path in sorted(evidence.folder.glob("*/*.parquet")):
            try:
                read_parquet(path)
            except (OSError, ValueError):
                return UnreadableInput(f"{path} is damaged: a part of it cannot be read")
    return error


def _stored_run(evidence: Evidence, allow: frozenset[str]) -> StoredRun:
    """The facts about a run that the checkers need."""
    return StoredRun(
        run=evidence.run,
        folder=evidence.folder,
        wall_ms_at_zero=evidence.plan.run.get("wall_ms_at_zero"),
        allowed=dict.fromkeys(allow, CALLER)
        | dict.fromkeys(
            evidence.plan.workload.get("allowed", ()),
            "the workload" if evidence.plan.pipeline.journaled else "the pipeline's guarantee",
        ),
        goals=tuple(goal.counted for goal in evidence.plan.pipeline.goals),
        incomplete=(*evidence.differences, *_unknown_partitions(evidence)),
        problems=tuple(evidence.run_metadata.evidence_problems) if evidence.run_metadata else (KILLED,),
        had_log=evidence.had_log,
        promises=evidence.plan.promises,
        healed=evidence.run_metadata is not None and heals_known(evidence.run_metadata),
        clock_drift_ms=evidence.run_metadata.clock_drift_ms if evidence.run_metadata else None,
        broken_premises=evidence.broken_premises,
        refused_logs=evidence.run_metadata.refused_logs if evidence.run_metadata else {},
        blind=evidence.blind,
        without_journals=not all(stage.journaled for stage in evidence.plan.pipeline.stages),
        correlated=any(topic.identity in JOINED for topic in evidence.plan.pipeline.topics),
        transactional_topics=evidence.plan.pipeline.transactional_topics,
        growths=_growths(evidence),
        passed_over={
            group: [split_partition(name) for name in names]
            for group, names in (evidence.run_metadata.passed_over if evidence.run_metadata else {}).items()
        },
        faults=evidence.run_metadata.faults if evidence.run_metadata else (),
        topics=frozenset(topic.name for topic in evidence.plan.pipeline.topics),
        drained=evidence.run_metadata is not None  # not known for a run that was killed
        and not any(
            problem.code in STOPPED_BEFORE_DRAINED for problem in evidence.run_metadata.evidence_problems
        ),
        rested_ms=evidence.run_metadata.rested_ms if evidence.run_metadata else None,
    )


def _unknown_partitions(evidence: Evidence) -> list[str]:
    """Return why the partitions at the end of the run are not known, so that an absent input proves nothing."""
    problems = evidence.run_metadata.evidence_problems if evidence.run_metadata else ()
    return [problem.text for problem in problems if problem.code == ReasonCode.ENDS_UNKNOWN]


def _growths(evidence: Evidence) -> dict[str, Growth]:
    """Return the topics of the pipeline that got more partitions during the run.

    If faults of the run account for all new partitions, each of them raised the number once. Otherwise somebody else
    did, at most once for each new partition.
    """
    rows = read_parquet(
        evidence.folder / "history" / "partitions.parquet", ["topic", "partition"]
    ).to_pylist()
    present = Counter(row["topic"] for row in rows)
    raised: dict[str, list[int]] = defaultdict(list)
    for report in evidence.run_metadata.faults if evidence.run_metadata else ():
        if (details := report.details).keys() >= {"topic", "partitions_before", "partitions_after"}:
            raised[details["topic"]].append(
                int(details["partitions_after"]) - int(details["partitions_before"])
            )
    growths = {}
    for topic in evidence.plan.pipeline.topics:
        if (added := present[topic.name] - topic.partitions) > 0:
            times = len(raised[topic.name]) if sum(raised[topic.name]) == added else added
            growths[topic.name] = Growth(topic.partitions, times)
    return growths
