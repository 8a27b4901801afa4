"""From stored runs to verdicts: the checkers' findings, weighed with what the runs say of themselves."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.checks.evidence import KILLED, Evidence, contradictions, require_evidence, require_table
from fencepost.checks.histories import check_each_file as judge_files
from fencepost.checks.verdict_rules import decide, healed_ns
from harness.common.errors import AnalysisFailed, FencepostError, UnreadableInput
from harness.model.pipeline import JOINED
from harness.model.promises import HISTORY_FILE
from harness.record.client_history import file_crc
from harness.record.parquet_reader import has_tables, read_parquet
from harness.record.run_tables import PLAN
from harness.record.schema import HISTORY, LOG
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import CALLER, CheckResult, Verdict
from harness.settings.run_file import StoredPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.checking.stored_runs import StoredRun


LEFT = frozenset({ReasonCode.NOT_DRAINED, ReasonCode.INPUTS_LEFT})
"""The problems of a run whose stages were stopped with inputs left."""


def open_evidence(history: str, folder: Path) -> Evidence:
    """Read what a run left; makes the tables of one that was killed. Raises `UnreadableInput`."""
    plan = StoredPlan.load(folder / PLAN)
    number = str(plan.run.get("id", ""))
    if not (number.isascii() and number.isdecimal()):
        raise UnreadableInput(f"{folder / PLAN} does not say which run it is: [run] id is missing")
    require_evidence(folder)
    told = folder / "metadata.json"
    facts = RunMetadata.load(told) if told.exists() else None
    if not has_tables(folder) and not (folder / "verdict.json").exists():
        from harness.runner.tabulate import tabulate  # rarely needed, and loads a client library

        try:
            tabulate(folder, plan)  # it ended before it came to that
        except (TypeError, ValueError, LookupError, OverflowError) as error:  # Arrow's are among them
            raise UnreadableInput(
                f"the journals of {folder} are not as the run wrote them ({type(error).__name__}: {error})"
            ) from error
    for room, tables in (("history", HISTORY), ("log", LOG)):
        if room == "history" or (folder / room).exists():
            for table in tables:
                require_table(folder / room / f"{table}.parquet", int(number), facts.rows if facts else {})
    try:
        lacking = tuple(contradictions(folder, plan)) if facts else (KILLED.text,)
        evidence = Evidence(history, folder, plan, facts, lacking)
        _try(evidence)
    except OSError as error:
        raise UnreadableInput(f"a table of {folder} is damaged: {str(error).splitlines()[0]}") from error
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise UnreadableInput(
            f"{folder}: {PLAN} or metadata.json is not as the run wrote it ({type(error).__name__}: {error})"
        ) from error
    return evidence


def _try(evidence: Evidence) -> None:
    """Ask what will be asked of the run's own files; raises what comes of it if they are damaged."""
    facts = evidence.facts or RunMetadata()
    names = evidence.plan.workload.get("allowed", [])
    if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
        raise TypeError(f"what is allowed is a list of names, not {names!r}")
    numbers = (
        facts.clock_drift_ms,
        evidence.plan.run.get("wall_ms_at_zero"),
        evidence.plan.run.get("session_timeout_ms"),
    )
    if any(one is not None and type(one) not in (int, float) for one in numbers):
        raise TypeError("a number is none")
    healed_ns(facts)
    _ = evidence.broken_premises
    decide(evidence, CheckResult({}, {}, {}))


def decide_runs(
    spark: "SparkSession",
    runs: Sequence[Evidence],
    allow: frozenset[str] = frozenset(),
    phase: Callable[[str], None] = lambda name: None,
) -> list[Verdict | FencepostError]:
    """A verdict for each run, all in one job, or why there is none; a copy of a run, which bears the same
    number, is judged in another. `allow`: anomalies that the caller permits beside the workload. `phase` is told
    what begins.
    """
    if not runs:
        return []
    first = {evidence.run: evidence for evidence in reversed(runs)}
    copies = [evidence for evidence in runs if first[evidence.run] is not evidence]
    verdicts = _judge_together(spark, list(first.values()), allow, phase)
    later = dict(zip(map(id, copies), decide_runs(spark, copies, allow, phase), strict=True))
    return [later[id(run)] if id(run) in later else verdicts[run.run] for run in runs]


def decide_run(spark: "SparkSession", run: Evidence, phase: Callable[[str], None]) -> Verdict:
    """The verdict of one run; raises why there is none."""
    (answer,) = decide_runs(spark, [run], phase=phase)
    if isinstance(answer, FencepostError):
        raise answer
    return answer


def _judge_together(
    spark: "SparkSession", runs: Sequence[Evidence], allow: frozenset[str], phase: Callable[[str], None]
) -> dict[int, Verdict | FencepostError]:
    """By number, the verdicts of runs that share none."""
    from checkers.checking.stored_runs import check_each_run

    stored = [_stored_run(evidence, allow) for evidence in runs]
    told = _with_histories(spark, runs, stored, check_each_run(spark, stored, phase=phase), phase)
    return {
        evidence.run: name_damaged_table(evidence, judged)
        if isinstance(judged, FencepostError)
        else decide(evidence, judged)
        for evidence in runs
        for judged in (told[evidence.run],)
    }


def _with_histories(
    spark: "SparkSession",
    runs: Sequence[Evidence],
    stored: "Sequence[StoredRun]",
    judged: Mapping[int, CheckResult | FencepostError],
    phase: Callable[[str], None],
) -> Mapping[int, CheckResult | FencepostError]:
    """The same; of the runs that promised their clients' history, with what that says, all in one job more."""
    from checkers.checking.merge_history import merge_history

    there = [one for one in runs if one.plan.promises.history]
    if not there:
        return judged
    phase("the clients' history")
    files = {
        n: one.folder / HISTORY_FILE for n, one in enumerate(there) if (one.folder / HISTORY_FILE).is_file()
    }
    answers = judge_files(spark, files, frozenset(), phase)
    allowed = {one.run: one.allowed for one in stored}
    found = dict(judged)
    for n, one in enumerate(there):
        of_tables = judged[one.run]
        if isinstance(of_tables, CheckResult):
            said = _altered(one) or _said(answers.get(n))
            found[one.run] = merge_history(of_tables, said, allowed[one.run])
    return found


def _said(answer: CheckResult | FencepostError | None) -> CheckResult | Reason:
    """What a history says, or why it says nothing."""
    from checkers.checking.merge_history import history_damaged

    if answer is None:
        return history_damaged("it is missing")
    return answer if isinstance(answer, CheckResult) else history_damaged(f"it cannot be judged: {answer}")


def _altered(evidence: Evidence) -> Reason | None:
    """Why what a history says is no evidence: it is not as the run wrote it. That of a run that was killed was made of
    its journals just now.
    """
    from checkers.checking.merge_history import history_damaged

    path = evidence.folder / HISTORY_FILE
    if evidence.facts is None or not path.is_file() or file_crc(path) == evidence.facts.history_crc:
        return None
    return history_damaged("the file is not as the run wrote it")


def name_damaged_table(evidence: Evidence, error: FencepostError) -> FencepostError:
    """Why a run has no verdict. A table whose pages are damaged fails in Spark in ways that name no file."""
    if isinstance(error, AnalysisFailed):
        for path in sorted(evidence.folder.glob("*/*.parquet")):
            try:
                read_parquet(path)
            except (OSError, ValueError):
                return UnreadableInput(f"{path} is damaged: a part of it cannot be read")
    return error


def _stored_run(evidence: Evidence, allow: frozenset[str]) -> "StoredRun":
    """What the checkers are told of a run."""
    from checkers.checking.stored_runs import StoredRun

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
        incomplete=evidence.incomplete,
        had_log=evidence.had_log,
        promises=evidence.plan.promises,
        healed_ns=healed_ns(evidence.facts) if evidence.facts else None,
        clock_drift_ms=evidence.facts.clock_drift_ms if evidence.facts else None,
        broken_premises=evidence.broken_premises,
        refused_logs=evidence.facts.refused_logs if evidence.facts else {},
        session_ms=evidence.plan.run.get("session_timeout_ms"),
        blind=evidence.blind,
        unjournaled=not all(stage.journaled for stage in evidence.plan.pipeline.stages),
        correlated=any(topic.identity in JOINED for topic in evidence.plan.pipeline.topics),
        transactional_topics=evidence.plan.pipeline.transactional_topics,
        topics=frozenset(topic.name for topic in evidence.plan.pipeline.topics),
        drained=evidence.facts is not None  # of a run that was killed nobody knows
        and not any(one.code in LEFT for one in evidence.facts.evidence_problems),
        rested_ms=evidence.facts.rested_ms if evidence.facts else None,
    )
