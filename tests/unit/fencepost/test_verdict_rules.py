"""Findings are weighed with what the run says of itself: the worst wins."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from checkers.needs import NEEDS
from fencepost.checks.evidence import KILLED, Evidence
from fencepost.checks.verdict_rules import decide, healed_ns
from harness.model.goals import abort_goal
from harness.model.pipeline import PipelineSpec, StageSpec, TopicSpec
from harness.model.promises import Promises
from harness.model.vocabulary import Guarantee
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import RunMetadata, RunPhase
from harness.results.verdict import AnomalyFindings, CheckResult, FaultReport, Validity, Verdict
from harness.runner.processes import unexpected_end
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan

HEAL = RunPhase("heal", 10.0, 12.0)
STRUCK = FaultReport(
    "kill-broker", "broker 2", 1.0, 9.0, True, "process 7 ended by SIGKILL", "broker 2 was killed"
)
STRIKE = {"fault": "kill-broker", "target": "leader:a/0", "start_s": 3.0, "hold_s": 8.0}
CLEAN = CheckResult({}, {}, {}, coverage={"inputs": 10, "aborted": 1})
STAGE = StageSpec("s", ("a",), "g")
WORKLOAD = PipelineSpec("w", (TopicSpec("a", 3),), (STAGE,))
RUN = {"id": 5, "promises": asdict(Promises())}
CRASHED = Reason(ReasonCode.CHECK_CRASHED, "it crashed")


def judged(
    facts: RunMetadata | None = None,
    judgement: CheckResult = CLEAN,
    planned_faults: int = 1,
    *,
    killed: bool = False,
    options: Options | None = None,
) -> Verdict:
    asked = options or Options(seed=1)
    workload = replace(WORKLOAD, goals=(abort_goal(asked.abort_share),))
    plan = StoredPlan(asked, RUN, [STRIKE] * planned_faults, workload.as_table())
    told = None if killed else facts or RunMetadata(faults=[STRUCK])
    return decide(Evidence("h", Path("h"), plan, told, incomplete=()), judgement)


def test_a_clean_run_whose_faults_acted_is_valid() -> None:
    assert judged().valid is Validity.VALID


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (RunMetadata(faults=[replace(STRUCK, acted=False)]), "fault-did-not-act"),
        (RunMetadata(faults=[replace(STRUCK, evidence="")]), "fault-not-proven"),
        (RunMetadata(faults=[replace(STRUCK, start_s=9.0, end_s=8.0)]), "fault-not-proven"),
        (RunMetadata(faults=[replace(STRUCK, end_s=None)]), "fault-not-healed"),
        (RunMetadata(faults=[]), "faults-not-carried-out"),
        (RunMetadata(faults=[STRUCK], interrupted=True), "interrupted"),
        (
            RunMetadata(faults=[STRUCK], evidence_problems=[Reason(ReasonCode.INPUTS_LEFT, "3")]),
            "inputs-left",
        ),
        (RunMetadata(faults=[STRUCK], unmet_goals={"zombie": "nobody came back"}), "goal-not-met"),
    ],
)
def test_whatever_the_run_lacks_makes_it_unknown(facts: RunMetadata, code: str) -> None:
    verdict = judged(facts)
    assert verdict.valid is Validity.UNKNOWN
    assert [told.code for told in verdict.unknown_because] == [code]


def test_a_killed_run_is_unknown_at_best_and_invalid_where_the_proof_is_there() -> None:
    assert judged(killed=True).valid is Validity.UNKNOWN
    found = replace(CLEAN, anomalies={"duplicate": AnomalyFindings(1, [])})
    assert judged(judgement=found, killed=True).valid is Validity.INVALID


def test_what_the_run_and_its_tables_both_say_is_said_once() -> None:
    again = Reason(ReasonCode.INCOMPLETE_EVIDENCE, KILLED.text, "run")
    verdict = judged(judgement=replace(CLEAN, broken={"run": again, "duplicate": CRASHED}), killed=True)
    assert verdict.unknown_because == [KILLED, CRASHED]


def test_a_check_that_did_not_run_makes_a_run_unknown_and_one_without_evidence_does_not() -> None:
    assert judged(judgement=replace(CLEAN, broken={"duplicate": CRASHED})).valid is Validity.UNKNOWN
    assert judged(judgement=replace(CLEAN, not_checked={"duplicate": NEEDS["log"]})).valid is Validity.VALID


def test_an_allowed_anomaly_decides_nothing_and_another_outweighs_every_lack() -> None:
    allowed = replace(CLEAN, anomalies={"duplicate": AnomalyFindings(1, [], allowed=True)})
    assert judged(judgement=allowed).valid is Validity.VALID
    both = replace(CLEAN, anomalies={"duplicate": AnomalyFindings(1, [])}, broken={"unseen": CRASHED})
    assert judged(judgement=both).valid is Validity.INVALID


def test_a_run_without_an_abort_has_not_shown_that_aborts_are_hidden() -> None:
    verdict = judged(judgement=replace(CLEAN, coverage={"inputs": 10, "aborted": 0}))
    assert verdict.valid is Validity.UNKNOWN
    assert "aborted-read" in verdict.not_exercised


def test_a_run_that_was_to_abort_nothing_says_so_and_is_valid() -> None:
    nothing_aborted = replace(CLEAN, coverage={"inputs": 10, "aborted": 0})
    verdict = judged(judgement=nothing_aborted, options=Options(seed=1, abort_share=0.0))
    assert verdict.valid is Validity.VALID
    assert "abort-share is 0" in verdict.not_exercised["aborted-read"]


def test_workers_that_ended_by_themselves_stand_in_the_verdict() -> None:
    ended = unexpected_end("shop-1.0", "shop-1.0 ended by itself: Segmentation fault")
    verdict = judged(RunMetadata(faults=[STRUCK], unexpected_errors=[ended]))
    assert verdict.valid is Validity.VALID
    assert verdict.warnings == [ended]


def test_faults_without_room_are_told_and_change_nothing() -> None:
    verdict = judged(RunMetadata(faults=[STRUCK], unscheduled={"partition": "no room"}))
    assert verdict.valid is Validity.VALID
    assert verdict.not_exercised == {"partition": "no room"}


@pytest.mark.parametrize(
    ("facts", "expected_ns"),
    [
        (RunMetadata(), 0),
        (
            RunMetadata(
                faults=[STRUCK, replace(STRUCK, end_s=4.0), replace(STRUCK, end_s=20.0, acted=False)]
            ),
            9_000_000_000,
        ),
        (RunMetadata(faults=[STRUCK, replace(STRUCK, end_s=None)]), None),
        (RunMetadata(faults=[replace(STRUCK, end_s=None)], phases=[HEAL]), 12_000_000_000),
    ],
)
def test_the_last_fault_was_healed_at_its_end_or_with_the_cluster(
    facts: RunMetadata, expected_ns: int | None
) -> None:
    assert healed_ns(facts) == expected_ns


def test_a_fault_that_was_asked_for_and_never_planned_makes_a_run_unknown() -> None:
    named = Options(seed=1, nemesis=("pause-worker", "partition"))
    verdict = judged(RunMetadata(faults=[STRUCK]), options=named)
    assert verdict.valid is Validity.UNKNOWN
    assert "partition was requested, and the schedule does not have it" in {
        r.text for r in verdict.unknown_because
    }


ONCE_OR_MORE = replace(WORKLOAD, guarantee=Guarantee.AT_LEAST_ONCE, allowed=("reprocessed-input",))


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (
            0,
            "at least once held under 1 fault: no input took effect more than once, and none of 10 inputs was lost",
        ),
        (
            3,
            "at least once held under 1 fault: 3 inputs took effect more than once, and none of 10 inputs was lost",
        ),
    ],
)
def test_a_weaker_guarantee_says_how_often_it_was_needed(count: int, words: str) -> None:
    found = (
        {"reprocessed-input": AnomalyFindings(count, [], allowed=True, allowed_by="the workload")}
        if count
        else {}
    )
    judgement = replace(CLEAN, anomalies=found, checked=["reprocessed-input", "lost-input"])
    plan = StoredPlan(Options(seed=1), RUN, [STRIKE], ONCE_OR_MORE.as_table())
    verdict = decide(Evidence("h", Path("h"), plan, RunMetadata(faults=[STRUCK]), incomplete=()), judgement)
    assert (verdict.valid, verdict.summary) == (Validity.VALID, words)
    assert ("reprocessed-input" in verdict.not_exercised) is (count == 0)


def test_what_a_weaker_guarantee_permits_beside_is_counted_apart() -> None:
    found = {
        name: AnomalyFindings(count, [], allowed=True, allowed_by="the workload", words=words)
        for name, count, words in (("reprocessed-input", 3, ""), ("duplicate", 2, "2 values stand twice"))
    }
    judgement = replace(CLEAN, anomalies=found, checked=[*found, "lost-input"])
    permitting = replace(ONCE_OR_MORE, allowed=tuple(found))
    plan = StoredPlan(Options(seed=1), RUN, [STRIKE], permitting.as_table())
    verdict = decide(Evidence("h", Path("h"), plan, RunMetadata(faults=[STRUCK]), incomplete=()), judgement)
    assert verdict.summary == (
        "at least once held under 1 fault: 3 inputs took effect more than once, 2 values stand twice, "
        "and none of 10 inputs was lost"
    )


def test_of_exactly_once_nothing_is_said_to_be_permitted() -> None:
    assert judged(judgement=replace(CLEAN, checked=["reprocessed-input", "lost-input"])).not_exercised == {}


def test_a_sweep_that_was_asked_for_must_have_all_its_steps() -> None:
    stage = replace(STAGE, workers=("s-1",), steps=("after-poll", "after-send"), zombie_steps=("after-send",))
    workload = replace(WORKLOAD, stages=(stage,))
    planned_faults = [
        {"fault": fault, "target": "worker:s/s-1", "start_s": 3.0, "hold_s": 1.0, "step": step}
        for fault, step in (
            ("kill-worker", "after-poll"),
            ("kill-worker", "after-send"),
            ("pause-worker", "after-poll"),
        )
    ]
    acted = [FaultReport(one["fault"], "w", 1.0, 2.0, True, "seen", "w was struck") for one in planned_faults]  # type: ignore[arg-type]
    plan = StoredPlan(Options(seed=1, nemesis=("crash-points",)), RUN, planned_faults, workload.as_table())
    verdict = decide(Evidence("h", Path("h"), plan, RunMetadata(faults=acted), incomplete=()), CLEAN)
    assert [reason.subject for reason in verdict.unknown_because] == ["pause-worker@after-send"]
