"""The rules that decide whether a run or an external history is valid, unknown or invalid.

- **invalid**: a check found an anomaly that is not allowed.
- **unknown**: no such anomaly, and at least one reason why it cannot be valid.
- **valid**: neither.

A run is unknown for the gaps in its tables (`checkers.gaps.registry`), for a check that crashed, for problems that the
run itself reports, and for the gaps that `RULES` finds in its plan and its metadata. The codes of the reasons are
explained in docs/reasons.md.
An external history has no faults and no goals: it is unknown only if a check crashed, or if nothing was read in it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from checkers.contrasts.origin import with_control
from checkers.gaps.progress import LEFT_INPUTS
from checkers.gaps.rule import GapRule, Row, apply_rules, once
from checkers.histories.files import Url
from checkers.recovery.measure import Recovery, stalled, undecided_stalls
from fencepost.checks.evidence import Evidence
from harness.model.fault_names import expand_names, has_weights, requested_name
from harness.model.pipeline import PipelineSpec
from harness.model.vocabulary import Guarantee
from harness.record.protocol_journal import JOURNAL
from harness.results.reasons import KILLED, Reason, ReasonCode, by_cause
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import CheckResult, FaultReport, Validity, Verdict
from harness.settings.run_file import StoredPlan
from reports.summary import summary

RULE_REMEDY = (
    "change the rule: protocol.jsonl, in the run's folder, has all requests with their times, and with since=start "
    "a rule is in force before the first worker starts"
)

FAULT_REMEDIES = (
    (
        "was not seen to write",
        "if the stage needs long to start, write works_within_s in its [[stage]]; its log is in workers/ of the run",
    ),
    (
        "its group did not go on without",
        "set a shorter session.timeout.ms in the program, for example 6 s, so that its group removes it in time",
    ),
    (
        "did not leave cleanly",
        "let the program end after its stop signal, or write another `stop` or a longer stop_within_s in its [[stage]]",
    ),
    (
        "did not join",
        "read its log, in workers/; if it starts slowly, write a longer ready_within_s in its [[stage]]",
    ),
    (
        "transactional id",
        "name the transactional_id in the [[stage]], or write transactions = false if it has none",
    ),
)
"""A part of the evidence of a fault that did not act, and what the user can do then. The first that fits counts."""


@dataclass(frozen=True)
class CheckedRun:
    """The input of the rules: the plan and the metadata of a run, and the result of its checks."""

    plan: StoredPlan
    run_metadata: RunMetadata | None  # None: the run was killed before its end
    result: CheckResult
    journal_change: str = ""  # how the journal of the protocol proxy is not as the run wrote it

    @property
    def faults(self) -> Iterable[FaultReport]:
        """The faults that the run reports; none if it was killed."""
        return self.run_metadata.faults if self.run_metadata else ()


def _faults(run: CheckedRun) -> Iterator[Row]:
    """Yield the faults that the run reports, with what the user can do about their evidence."""
    for fault in run.faults:
        remedy = RULE_REMEDY if fault.fault == "rule" else _remedy_for(fault.evidence)
        yield {
            "fault": fault.fault,
            "acted": fault.acted,
            "evidence": fault.evidence,
            "start_s": fault.start_s,
            "end_s": fault.end_s,
            "remedy": remedy,
        }


def _unplanned_faults(run: CheckedRun) -> Iterator[Row]:
    """Yield the faults that `--nemesis` names and the schedule lacks. With weights, one of them is enough."""
    names = run.plan.options.nemesis or ()
    if run.run_metadata is None:
        return
    if has_weights(names):
        if not run.plan.schedule:
            yield {"names": ", ".join(names), "lacks": "the schedule has no fault"}
        return
    requested = [part for name in expand_names(names, run.plan.pipeline) for part in name.split("+")]
    planned = {requested_name(planned, requested) for planned in run.plan.schedule}
    for name in requested:
        if name not in planned:
            yield {"names": name, "lacks": "the schedule does not have it"}


def _faults_apart(run: CheckedRun) -> Iterator[Row]:
    """Yield the faults that `--nemesis` wants to overlap and that were never active at the same time."""
    if run.run_metadata is None:
        return
    acted = [fault for fault in run.faults if fault.acted and fault.end_s is not None]
    active = [
        Counter(other.fault for other in acted if other.start_s <= fault.start_s < (other.end_s or 0.0))
        for fault in acted
    ]
    planned = {str(fault.get("fault")) for fault in run.plan.schedule}
    for name in run.plan.options.nemesis or ():
        together = Counter(part.partition("@")[0] for part in name.partition("=")[0].split("+"))
        if together.total() > 1 and planned >= set(together) and not any(together <= now for now in active):
            yield {"names": name}


def _faults_without_report(run: CheckedRun) -> int:
    """Return how many planned faults the run does not report."""
    if run.run_metadata is None:
        return 0
    planned = Counter(str(planned.get("fault")) for planned in run.plan.schedule)
    return (planned - Counter(fault.fault for fault in run.faults)).total()


def _goals(run: CheckedRun) -> Iterator[Row]:
    """Yield the goals that the run did not reach and that were not waived.

    A goal is left out if a fault did not act for the same reason: `fault-did-not-act` gives it already.
    """
    said = {fault.evidence for fault in run.faults if not fault.acted}
    remedies = {goal.name: goal.remedy for goal in run.plan.pipeline.goals}
    for goal, why in unmet_goals(run).items():
        if why not in said:
            yield {"goal": goal, "why": why, "remedy": remedies.get(goal) or _remedy_for(why)}


def _remedy_for(evidence: str) -> str:
    """Return what the user can do about this evidence of a fault. Empty: the remedy of the reason's code."""
    return next((remedy for words, remedy in FAULT_REMEDIES if words in evidence), "")


CUT_SHORT = (
    *("interrupted", ReasonCode.RUN_KILLED, ReasonCode.RUN_FAILED),
    *(ReasonCode.NEVER_CAME_UP, ReasonCode.PIPELINE_FAILED),
)
"""Rules and problems of a run that did not carry out its plan."""
COURSE: tuple[GapRule[CheckedRun], ...] = (
    GapRule(
        "interrupted",
        once(lambda run: run.run_metadata is not None and run.run_metadata.interrupted),
        "the run was interrupted",
        code=ReasonCode.INTERRUPTED,
    ),
    GapRule(
        "run-killed",
        once(lambda run: run.run_metadata is None),  # it does not say what its faults did
        KILLED.text,
        code=ReasonCode.RUN_KILLED,
    ),
)
"""The run did not come to its end."""
FAULTS: tuple[GapRule[CheckedRun], ...] = (
    GapRule(
        "protocol-journal-changed",
        lambda run: [{"change": run.journal_change}],
        "{change}, so it does not prove what the rules did",
        where=lambda row: row["change"],
        subject=JOURNAL,
    ),
    GapRule(
        "fault-did-not-act",
        _faults,
        "{fault} did not act: {evidence}",
        where=lambda row: not row["acted"],
        subject="{fault}",
        code=ReasonCode.FAULT_DID_NOT_ACT,
        remedy="{remedy}",
    ),
    GapRule(
        "fault-without-evidence",
        _faults,
        "nothing proves that {fault} acted",
        where=lambda row: row["acted"] and not row["evidence"],
        subject="{fault}",
        code=ReasonCode.FAULT_NOT_PROVEN,
    ),
    GapRule(
        "fault-backwards",
        _faults,
        "{fault} ended before it began",
        where=lambda row: row["acted"] and row["end_s"] is not None and row["end_s"] < row["start_s"],
        subject="{fault}",
        code=ReasonCode.FAULT_NOT_PROVEN,
    ),
    GapRule(
        "fault-not-healed",
        _faults,
        "{fault} was not healed",
        where=lambda row: row["acted"] and row["end_s"] is None,
        subject="{fault}",
        code=ReasonCode.FAULT_NOT_HEALED,
    ),
    GapRule(
        "fault-not-planned",
        _unplanned_faults,
        "{names} was requested, and {lacks}",
        subject="{names}",
        code=ReasonCode.FAULT_NOT_PLANNED,
    ),
    GapRule(
        "faults-apart",
        _faults_apart,
        "{names} was not exercised: its faults were never active at the same time",
        subject="{names}",
        code=ReasonCode.GOAL_NOT_MET,
        follows_from=CUT_SHORT,
    ),
    GapRule(
        "faults-not-carried-out",
        once(_faults_without_report),
        "the run ended before {count:planned fault} could be carried out",
        code=ReasonCode.FAULTS_NOT_CARRIED_OUT,
        follows_from=(*CUT_SHORT, ReasonCode.FAULTS_LATE),
    ),
    GapRule(
        "goal-not-met",
        _goals,
        "{goal} was not exercised: {why}",
        subject="{goal}",
        code=ReasonCode.GOAL_NOT_MET,
        remedy="{remedy}",
        follows_from=CUT_SHORT,
    ),
)
"""A fault proves nothing, or something was not exercised."""
RULES = (*COURSE, *FAULTS)
"""What makes a run unknown because of its plan and its metadata."""


def decide(evidence: Evidence, result: CheckResult) -> Verdict:
    """Decide the verdict of a stored run by the rules. The verdict lists the reasons."""
    result = with_stalls(result, evidence.recovery)
    result = replace(result, anomalies=with_control(result.anomalies, evidence.control))
    run = CheckedRun(evidence.plan, evidence.run_metadata, result, evidence.journal_change)
    run_metadata = evidence.run_metadata or RunMetadata()
    reasons = reasons_against(run)
    valid = Validity.UNKNOWN if reasons else Validity.VALID
    if any(not findings.allowed for findings in result.anomalies.values()):
        valid = Validity.INVALID
    pipeline = evidence.plan.pipeline
    return Verdict(
        history=evidence.history,
        name=evidence.plan.options.name or pipeline.name or evidence.plan.options.run_name,
        seed=evidence.plan.options.seed,
        valid=valid.json,
        summary=summary(
            valid,
            result.anomalies,
            run_metadata.faults,
            unknown_because=reasons,
            coverage=result.coverage,
            not_checked=result.not_checked,
            guarantee=pipeline.guarantee,
        ),
        anomalies=result.anomalies,
        not_checked_because=result.not_checked,
        not_decided=result.not_decided,
        not_exercised={
            **run_metadata.unscheduled,
            **waived_goals(run),
            **permitted_and_not_needed(pipeline, result),
            **unmet_goals(run),
        },
        unknown_because=reasons,
        warnings=list(run_metadata.unexpected_errors),
        checked=result.checked,
        faults=evidence.recovery.faults,
        churn=run_metadata.churn,
        coverage=result.coverage,
        stats=result.stats,
        unsettled=result.unsettled,
        requests=run_metadata.requests,
        api_errors=evidence.api_errors,
        left=evidence.lag,
        control=evidence.control,
    )


def with_stalls(result: CheckResult, recovery: Recovery) -> CheckResult:
    """Add the warning `stalled`, unless its evidence is missing, and what is not decided about stalls.

    If evidence of the run is incomplete, a missing commit proves nothing. Inputs without outputs are no such evidence:
    a stall leads to them.
    """
    if "stalled" not in result.checked:
        return result
    if recovery.not_known is not None:
        return replace(
            result,
            checked=[name for name in result.checked if name != "stalled"],
            not_checked={**result.not_checked, "stalled": recovery.not_known},
        )
    incomplete = any(
        reason.code is ReasonCode.INCOMPLETE_EVIDENCE and reason.rule != LEFT_INPUTS
        for reason in result.broken.values()
    )
    undecided = undecided_stalls(recovery, incomplete)
    if undecided is not None:
        result = replace(result, not_decided=[*result.not_decided, undecided])
    if incomplete or not recovery.stalls:
        return result
    return replace(result, anomalies={**result.anomalies, "stalled": stalled(recovery.stalls)})


def decide_external(path: Path | Url, result: CheckResult) -> Verdict:
    """Decide the verdict of an external history. The verdict lists the reasons.

    If nothing was read in a history, `unseen` alone does not make it invalid: a record that no client tried to read is
    not lost.
    """
    reasons = list(result.broken.values())
    bad = {name for name, findings in result.anomalies.items() if not findings.allowed}
    if ReasonCode.NOTHING_READ in result.broken:
        bad -= {"unseen"}
    valid = Validity.INVALID if bad else Validity.UNKNOWN if reasons else Validity.VALID
    return Verdict(
        history=str(path),
        name=path.name.split(".")[0],
        seed=None,
        valid=valid.json,
        summary=summary(
            valid,
            result.anomalies,
            unknown_because=reasons,
            coverage=result.coverage,
            not_checked=result.not_checked,
            committed="ok operation",
        ),
        anomalies=result.anomalies,
        not_checked_because=result.not_checked,
        unknown_because=reasons,
        checked=result.checked,
        coverage=result.coverage,
        stats=result.stats,
        unsettled=result.unsettled,
    )


def reasons_against(run: CheckedRun) -> list[Reason]:
    """Return all reasons why a run cannot be valid, without duplicates. Each comes before those that follow from it.

    The order of first causes: how the run ended, what it says that its evidence lacks, checks that crashed and evidence
    that is missing, faults, goals.
    """
    problems = run.run_metadata.evidence_problems if run.run_metadata else ()
    gaps = apply_rules(RULES, run, problems)
    course, others = ([gap.reason for gap in gaps if gap.rule in rules] for rules in (COURSE, FAULTS))
    reasons: dict[str, Reason] = {}
    for reason in (*course, *problems, *run.result.broken.values(), *others):
        reasons.setdefault(reason.text, reason)
    return [
        reason
        for cause, consequences in by_cause(list(reasons.values()))
        for reason in (cause, *consequences)
    ]


def unmet_goals(run: CheckedRun) -> dict[str, str]:
    """Return the goals that the run did not reach, and why: the run reports them as unmet, or their count is zero."""
    counted = {
        goal.name: f"{goal.text}; {goal.remedy}"
        for goal in run.plan.pipeline.goals
        if not goal.waived and not run.result.coverage.get(goal.counted)
    }
    return {**(run.run_metadata.unmet_goals if run.run_metadata else {}), **counted}


def waived_goals(run: CheckedRun) -> dict[str, str]:
    """Return the goals that the run did not reach, and why it did not have to reach them."""
    return {
        goal.name: goal.waived
        for goal in run.plan.pipeline.goals
        if goal.waived and not run.result.coverage.get(goal.counted)
    }


def permitted_and_not_needed(pipeline: PipelineSpec, result: CheckResult) -> dict[str, str]:
    """For each guarantee below exactly-once, return the anomaly that it permits, if no such anomaly was found.

    The pipeline may then hold a stronger guarantee than it promises. This does not change the verdict.
    """
    stages = {f" of {stage.name}": Guarantee(stage.guarantee) for stage in pipeline.stages if stage.guarantee}
    not_needed = {}
    for of_stage, guarantee in {"": pipeline.guarantee, **stages}.items():
        permitted = guarantee.permits
        if permitted is None or permitted not in result.checked:
            continue
        findings = result.anomalies.get(permitted)
        if findings is None or (of_stage and not findings.allowed and not findings.permitted):
            not_needed[permitted] = (
                f"{guarantee.value}{of_stage} permits it, and it did not occur; add --nemesis kill-worker to provoke it"
            )
    return not_needed


def heals_known(run_metadata: RunMetadata) -> bool:
    """Return whether it is known when each fault was healed: by its own report, or by the phase that heals them all."""
    return all(fault.end_s is not None for fault in run_metadata.faults if fault.acted) or any(
        phase.name == "heal" for phase in run_metadata.phases
    )
