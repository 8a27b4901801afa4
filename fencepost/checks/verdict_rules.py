"""The rules that decide whether a run or an external history is valid, unknown or invalid.

- **invalid**: a check found an anomaly that is not allowed.
- **unknown**: no such anomaly, and at least one rule gives a reason.
- **valid**: neither.

Each rule in `RULES` is one function from a run to reasons. The codes of the reasons are explained in docs/reasons.md.
An external history has no faults and no goals: it is unknown only if a check crashed, or if nothing was read in it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from checkers.contrasts.origin import with_control
from checkers.histories.files import Url
from checkers.recovery.measure import Recovery, stalled
from fencepost.checks.evidence import KILLED, Evidence
from harness.model.fault_names import expand_names, has_weights, requested_name
from harness.model.pipeline import PipelineSpec
from harness.model.vocabulary import Guarantee
from harness.record.protocol_journal import JOURNAL
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import CheckResult, FaultReport, Validity, Verdict
from harness.results.wording import plural
from harness.settings.run_file import StoredPlan

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


def was_interrupted(run: CheckedRun) -> Iterator[Reason]:
    """A run that was interrupted is unknown."""
    if run.run_metadata is not None and run.run_metadata.interrupted:
        yield Reason(ReasonCode.INTERRUPTED, "the run was interrupted")


def was_killed(run: CheckedRun) -> Iterator[Reason]:
    """A run without metadata.json is unknown, because it does not say what its faults did."""
    if run.run_metadata is None:
        yield KILLED


def has_problems(run: CheckedRun) -> Iterator[Reason]:
    """A run that reports a problem is unknown: a stage did not drain, or a reader did not reach the end."""
    if run.run_metadata is not None:
        yield from run.run_metadata.evidence_problems


def has_broken_checks(run: CheckedRun) -> Iterator[Reason]:
    """A run is unknown if a check crashed, or if evidence is missing."""
    yield from run.result.broken.values()


def journal_has_changed(run: CheckedRun) -> Iterator[Reason]:
    """A run is unknown if the journal of the protocol proxy has changed, because it is the proof of faults."""
    if run.journal_change:
        text = f"{run.journal_change}, so it does not prove what the rules did"
        yield Reason(ReasonCode.INCOMPLETE_EVIDENCE, text, JOURNAL)


def fault_did_not_act(run: CheckedRun) -> Iterator[Reason]:
    """A run is unknown if one of its faults did not act."""
    for fault in run.faults:
        if not fault.acted:
            text = f"{fault.fault} did not act: {fault.evidence}"
            remedy = RULE_REMEDY if fault.fault == "rule" else _remedy_for(fault.evidence)
            yield Reason(ReasonCode.FAULT_DID_NOT_ACT, text, fault.fault, remedy)


def fault_has_no_evidence(run: CheckedRun) -> Iterator[Reason]:
    """A run is unknown if a fault report says that the fault acted, but contains no evidence."""
    for fault in run.faults:
        if fault.acted and not fault.evidence:
            yield Reason(ReasonCode.FAULT_NOT_PROVEN, f"nothing proves that {fault.fault} acted", fault.fault)


def fault_ended_before_it_began(run: CheckedRun) -> Iterator[Reason]:
    """A run is unknown if a fault ended before it began."""
    for fault in run.faults:
        if fault.acted and fault.end_s is not None and fault.end_s < fault.start_s:
            yield Reason(ReasonCode.FAULT_NOT_PROVEN, f"{fault.fault} ended before it began", fault.fault)


def fault_was_not_healed(run: CheckedRun) -> Iterator[Reason]:
    """A run is unknown if a fault has no end."""
    for fault in run.faults:
        if fault.acted and fault.end_s is None:
            yield Reason(ReasonCode.FAULT_NOT_HEALED, f"{fault.fault} was not healed", fault.fault)


def fault_was_not_planned(run: CheckedRun) -> Iterator[Reason]:
    """A run is unknown if a fault that `--nemesis` names is not in its schedule. With weights, one of them must be."""
    names = run.plan.options.nemesis or ()
    if run.run_metadata is None:
        return
    if has_weights(names):
        if not run.plan.schedule:
            text = f"{', '.join(names)} was requested, and the schedule has no fault"
            yield Reason(ReasonCode.FAULT_NOT_PLANNED, text, ", ".join(names))
        return
    requested = [part for name in expand_names(names, run.plan.pipeline) for part in name.split("+")]
    planned = {requested_name(planned, requested) for planned in run.plan.schedule}
    for name in requested:
        if name not in planned:
            text = f"{name} was requested, and the schedule does not have it"
            yield Reason(ReasonCode.FAULT_NOT_PLANNED, text, name)


def faults_did_not_overlap(run: CheckedRun) -> Iterator[Reason]:
    """A run is unknown if faults that `--nemesis` wants to overlap were never active at the same time."""
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
            text = f"{name} was not exercised: its faults were never active at the same time"
            yield Reason(ReasonCode.GOAL_NOT_MET, text, name)


def faults_were_not_carried_out(run: CheckedRun) -> Iterator[Reason]:
    """A run is unknown if it reports fewer faults than were planned."""
    if run.run_metadata is None:
        return
    planned = Counter(str(planned.get("fault")) for planned in run.plan.schedule)
    missing = (planned - Counter(fault.fault for fault in run.faults)).total()
    if missing > 0:
        text = f"the run ended before {plural(missing, 'planned fault')} could be carried out"
        yield Reason(ReasonCode.FAULTS_NOT_CARRIED_OUT, text)


def goal_was_not_met(run: CheckedRun) -> Iterator[Reason]:
    """A run is unknown if it did not reach a goal that was not waived.

    A goal is left out if a fault did not act for the same reason: `fault_did_not_act` gives it already.
    """
    said = {fault.evidence for fault in run.faults if not fault.acted}
    remedies = {goal.name: goal.remedy for goal in run.plan.pipeline.goals}
    for goal, why in unmet_goals(run).items():
        if why in said:
            continue
        remedy = remedies.get(goal) or _remedy_for(why)
        yield Reason(ReasonCode.GOAL_NOT_MET, f"{goal} was not exercised: {why}", goal, remedy)


def _remedy_for(evidence: str) -> str:
    """Return what the user can do about this evidence of a fault. Empty: the remedy of the reason's code."""
    return next((remedy for words, remedy in FAULT_REMEDIES if words in evidence), "")


RULES: tuple[Callable[[CheckedRun], Iterator[Reason]], ...] = (
    was_interrupted,
    was_killed,
    has_problems,
    has_broken_checks,
    journal_has_changed,
    fault_did_not_act,
    fault_has_no_evidence,
    fault_ended_before_it_began,
    fault_was_not_healed,
    fault_was_not_planned,
    faults_did_not_overlap,
    faults_were_not_carried_out,
    goal_was_not_met,
)
"""Each rule yields reasons why a run cannot be valid. The summary names the first reason."""


def decide(evidence: Evidence, result: CheckResult) -> Verdict:
    """Decide the verdict of a stored run by the rules. The verdict lists the reasons."""
    from reports.summary import summary

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
    """Add the warning `stalled`, unless its evidence is missing.

    If evidence of the run is incomplete, a missing commit proves nothing.
    """
    if "stalled" not in result.checked:
        return result
    if recovery.not_known is not None:
        return replace(
            result,
            checked=[name for name in result.checked if name != "stalled"],
            not_checked={**result.not_checked, "stalled": recovery.not_known},
        )
    incomplete = any(reason.code is ReasonCode.INCOMPLETE_EVIDENCE for reason in result.broken.values())
    if incomplete or not recovery.stalls:
        return result
    return replace(result, anomalies={**result.anomalies, "stalled": stalled(recovery.stalls)})


def decide_external(path: Path | Url, result: CheckResult) -> Verdict:
    """Decide the verdict of an external history. The verdict lists the reasons.

    If nothing was read in a history, `unseen` alone does not make it invalid: a record that no client tried to read is
    not lost.
    """
    from reports.summary import summary

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
    """Return the reasons of all rules, in their order, without duplicates."""
    reasons: dict[str, Reason] = {}
    for rule in RULES:
        for reason in rule(run):
            reasons.setdefault(reason.text, reason)
    return list(reasons.values())


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
