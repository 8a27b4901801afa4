"""Findings weighed with what the run says of itself: the worst wins."""

from collections import Counter

from fencepost.aims import expand, key_of
from fencepost.evidence import KILLED, Evidence
from harness.facts import Facts
from harness.history import Guarantee
from harness.pipeline import PipelineFacts
from harness.reasons import Reason
from harness.settings.test_toml import Plan
from harness.telling.words import several
from harness.verdict import Judgement, Validity, Verdict


def conclude(evidence: Evidence, judgement: Judgement) -> Verdict:
    """Weigh the findings with the run's own circumstances: the worst wins."""
    from reports.summary import summary

    facts = evidence.facts or Facts()
    unmet, waived = _goals(evidence.plan, judgement)
    unmet_goals = {**facts.unmet_goals, **unmet}
    guarantee = evidence.plan.pipeline.guarantee
    waived |= _not_needed(evidence.plan.pipeline, judgement)
    told: dict[str, Reason] = {}  # what the run says and what its tables show may be the same
    for reason in (*_reasons(evidence), *judgement.broken.values()):
        told.setdefault(reason.text, reason)
    reasons = list(told.values())
    reasons += _unstruck(evidence)
    reasons += [
        Reason("goal-not-met", f"{goal} was not exercised: {why}", goal) for goal, why in unmet_goals.items()
    ]
    valid = Validity.UNKNOWN if reasons else Validity.VALID
    if any(not found.allowed for found in judgement.anomalies.values()):
        valid = Validity.INVALID
    return Verdict(
        history=evidence.history,
        name=evidence.plan.options.name or evidence.plan.pipeline.name or evidence.plan.options.run_name,
        seed=evidence.plan.options.seed,
        valid=valid,
        summary=summary(
            valid,
            judgement.anomalies,
            facts.faults,
            unknown_because=reasons,
            coverage=judgement.coverage,
            not_checked=judgement.not_checked,
            guarantee=guarantee,
        ),
        anomalies=judgement.anomalies,
        not_checked=judgement.not_checked,
        not_exercised={**facts.unscheduled, **waived, **unmet_goals},
        unknown_because=reasons,
        warnings=list(facts.unexpected_errors),
        checked=judgement.checked,
        faults=facts.faults,
        churn=facts.churn,
        coverage=judgement.coverage,
        stats=judgement.stats,
        unsettled=judgement.unsettled,
        requests=facts.requests,
    )


def _reasons(evidence: Evidence) -> list[Reason]:
    """Why a run that says so itself cannot be valid."""
    if evidence.facts is None:
        return [KILLED]
    reasons = list(evidence.facts.evidence_problems)
    if evidence.facts.interrupted:
        remedy = "let the run come to its end: `fencepost replay` repeats it from its seed"
        reasons.insert(0, Reason("interrupted", "the run was interrupted", remedy=remedy))
    return reasons


def _unstruck(evidence: Evidence) -> list[Reason]:
    """The faults that were planned and did not do what they were for."""
    if evidence.facts is None:
        return []
    faults = evidence.facts.faults
    again = "repeat it with another `--seed`, or name the fault with `--nemesis` and a longer `--time-limit`"
    reasons = [
        Reason("fault-did-not-act", f"{fault.fault} did not act: {fault.evidence}", fault.fault, again)
        for fault in faults
        if not fault.acted
    ]
    reasons += [
        Reason("fault-not-proven", f"nothing proves that {fault.fault} acted", fault.fault, again)
        for fault in faults
        if fault.acted and not fault.evidence
    ]
    reasons += [
        Reason("fault-not-proven", f"{fault.fault} ended before it began", fault.fault, again)
        for fault in faults
        if fault.acted and fault.end_s is not None and fault.end_s < fault.start_s
    ]
    reasons += [
        Reason("fault-not-healed", f"{fault.fault} was not healed", fault.fault)
        for fault in faults
        if fault.acted and fault.end_s is None
    ]
    planned = Counter(str(injection.get("fault")) for injection in evidence.plan.schedule)
    asked = expand(evidence.plan.options.nemesis or (), evidence.plan.pipeline)
    there = {key_of(injection, asked) for injection in evidence.plan.schedule}
    named = [name for name in asked if name not in there]
    reasons += [
        Reason("fault-not-planned", f"{name} was asked for, and the schedule has none", name, again)
        for name in named
    ]
    missing = (planned - Counter(fault.fault for fault in faults)).total()
    if missing > 0:
        text = f"the run ended before {several(missing, 'planned fault')} could be carried out"
        longer = "let the run come to its end: `fencepost replay` repeats it; or use a longer `--time-limit`"
        reasons.append(Reason("faults-not-carried-out", text, remedy=longer))
    return reasons


def _goals(plan: Plan, judgement: Judgement) -> tuple[dict[str, str], dict[str, str]]:
    """Goals that only the history can show, and that were not reached; and those that were waived."""
    missed = [goal for goal in plan.pipeline.goals if not judgement.coverage.get(goal.counted)]
    unmet = {goal.name: f"{goal.text}; {goal.remedy}" for goal in missed if not goal.waived}
    return unmet, {goal.name: goal.waived for goal in missed if goal.waived}


def _not_needed(pipeline: PipelineFacts, judgement: Judgement) -> dict[str, str]:
    """What a guarantee exists to permit, where it did not occur: then the run has not shown that it holds."""
    stages = {f" of {one.name}": Guarantee(one.guarantee) for one in pipeline.stages if one.guarantee}
    missed = {}
    for whose, guarantee in {"": pipeline.guarantee, **stages}.items():
        permitted = guarantee.permits
        if permitted is None or permitted not in judgement.checked:
            continue
        found = judgement.anomalies.get(permitted)
        if found is None or (whose and not found.allowed and not found.permitted):
            missed[permitted] = (
                f"{guarantee.value}{whose} permits it, and it did not occur; kill-worker provokes it"
            )
    return missed


def healed_ns(facts: Facts) -> int | None:
    """When the last fault was healed, in run time; 0: there was none; None: nobody knows."""
    ends = [fault.end_s for fault in facts.faults if fault.acted]
    if None in ends:
        ends = [phase.end_s for phase in facts.phases if phase.name == "heal"]
        if not ends:
            return None
    return round(1e9 * max((end for end in ends if end is not None), default=0.0))
