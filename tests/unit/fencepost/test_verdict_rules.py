"""The rules that decide a verdict from the findings and the run metadata."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from msgspec import structs

from checkers.checker import NEEDS
from checkers.gaps.rule import apply_rules
from fencepost.checks.evidence import Evidence
from fencepost.checks.verdict_rules import RULES, CheckedRun, decide, heals_known
from harness.model.pipeline import PipelineSpec, StageSpec, TopicSpec
from harness.model.promises import Promises, abort_goal
from harness.model.vocabulary import Guarantee
from harness.record.client_history import file_crc
from harness.record.protocol_journal import JOURNAL
from harness.results.reasons import KILLED, Reason, ReasonCode
from harness.results.run_metadata import RunMetadata, RunPhase
from harness.results.verdict import AnomalyFindings, CheckResult, FaultReport, Validity, Verdict
from harness.runner.processes import unexpected_end
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan
from tests.support.changed_requests import at, write_held_requests
from tests.support.histories import History
from tests.support.stored_tables import write_store

HEAL = RunPhase("heal", 10.0, 12.0)
ACTED = FaultReport(
    "kill-broker", "broker 2", 1.0, 9.0, True, "process 7 ended by SIGKILL", "broker 2 was killed"
)
PLANNED = {"fault": "kill-broker", "target": "leader:a/0", "start_s": 3.0, "hold_s": 8.0}
CLEAN = CheckResult({}, {}, {}, coverage={"inputs": 10, "aborted": 1})
STAGE = StageSpec("s", ("a",), "g")
WORKLOAD = PipelineSpec("w", (TopicSpec("a", 3),), (STAGE,))
RUN = {"id": 5, "promises": asdict(Promises())}
CRASHED = Reason(ReasonCode.CHECK_CRASHED, "it crashed")


def verdict_of(
    metadata: RunMetadata | None = None,
    result: CheckResult = CLEAN,
    planned_faults: int = 1,
    *,
    killed: bool = False,
    options: Options | None = None,
) -> Verdict:
    options_ = options or Options(seed=1)
    workload = replace(WORKLOAD, goals=(abort_goal(options_.abort_share),))
    plan = StoredPlan(options_, RUN, [PLANNED] * planned_faults, workload.as_table())
    metadata_ = None if killed else metadata or RunMetadata(faults=[ACTED])
    return decide(Evidence("h", Path("h"), plan, metadata_, differences=()), result)


def test_a_clean_run_whose_faults_acted_is_valid() -> None:
    assert verdict_of().validity is Validity.VALID


@pytest.mark.parametrize(
    ("evidence", "setting"),
    [
        ("it is open; the stage was not seen to write before the fault: waited 20 s", "works_within_s"),
        ("s-1.0 was paused, but its group did not go on without it", "session.timeout.ms"),
        ("s-1.0 did not leave cleanly after SIGTERM: it did not end within 30 s", "stop_within_s"),
        ("s-4.0 did not join: waited 60 s for all processes to be ready", "ready_within_s"),
        ("its target did not exist", "--seed"),
    ],
)
def test_a_fault_that_did_not_act_names_the_setting_that_would_help(evidence: str, setting: str) -> None:
    fault = structs.replace(ACTED, acted=False, evidence=evidence)
    reasons = verdict_of(RunMetadata(faults=[fault])).unknown_because
    (reason,) = [each for each in reasons if each.code == ReasonCode.FAULT_DID_NOT_ACT]
    assert setting in reason.remedy


def test_a_goal_that_was_not_met_has_its_own_remedy() -> None:
    (reason,) = verdict_of(result=replace(CLEAN, coverage={"inputs": 10, "aborted": 0})).unknown_because
    assert reason.remedy == abort_goal(0.1).remedy and "--seed" not in reason.remedy


@pytest.mark.parametrize("change", ["missing", "cut off", "edited", ""])
def test_a_run_whose_protocol_journal_has_changed_is_unknown(tmp_path: Path, change: str) -> None:
    write_held_requests(tmp_path, "shop-1", errors=("NO_SUCH_ERROR", "NOT_COORDINATOR"), returned_ns=at(4.5))
    journal = tmp_path / JOURNAL
    metadata = RunMetadata(faults=[ACTED], protocol_crc=file_crc(journal))
    content = journal.read_bytes()
    if change == "missing":
        journal.unlink()
    elif change:
        journal.write_bytes(content[:-9] if change == "cut off" else content.replace(b"shop-1", b"shop-2"))
    plan = StoredPlan(Options(seed=1), RUN, [PLANNED], WORKLOAD.as_table())
    verdict = decide(Evidence("h", tmp_path, plan, metadata, differences=()), CLEAN)
    if not change:
        assert verdict.validity is Validity.VALID and verdict.api_errors == {"EndTxn": {"NOT_COORDINATOR": 1}}
        return
    (reason,) = verdict.unknown_because
    assert verdict.validity is Validity.UNKNOWN and verdict.api_errors == {}
    assert (reason.code, reason.subject) == (ReasonCode.INCOMPLETE_EVIDENCE, JOURNAL)
    how = "is missing" if change == "missing" else "is not as the run wrote it"
    assert reason.text == f"{JOURNAL} {how}, so it does not prove what the rules did"


def test_what_is_left_is_in_the_verdict_and_does_not_decide_it(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0)
    write_store(tmp_path, [(5, history)], log=True)
    plan = StoredPlan(Options(seed=1), RUN, [PLANNED], WORKLOAD.as_table())
    evidence = Evidence("h", tmp_path, plan, RunMetadata(faults=[ACTED]), differences=())
    verdict = decide(evidence, CLEAN)
    assert verdict.validity is Validity.VALID
    assert verdict.left is not None and verdict.left.entries.committed_records == 1


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        (RunMetadata(faults=[structs.replace(ACTED, acted=False)]), "fault-did-not-act"),
        (RunMetadata(faults=[structs.replace(ACTED, evidence="")]), "fault-not-proven"),
        (RunMetadata(faults=[structs.replace(ACTED, start_s=9.0, end_s=8.0)]), "fault-not-proven"),
        (RunMetadata(faults=[structs.replace(ACTED, end_s=None)]), "fault-not-healed"),
        (RunMetadata(faults=[]), "faults-not-carried-out"),
        (RunMetadata(faults=[ACTED], interrupted=True), "interrupted"),
        (
            RunMetadata(faults=[ACTED], evidence_problems=[Reason(ReasonCode.INPUTS_LEFT, "3")]),
            "inputs-left",
        ),
        (RunMetadata(faults=[ACTED], unmet_goals={"zombie": "no worker came back"}), "goal-not-met"),
        (
            RunMetadata(
                faults=[structs.replace(ACTED, acted=False, evidence="none was seen")],
                unmet_goals={"rule": "none was seen"},
            ),
            "fault-did-not-act",
        ),
    ],
)
def test_each_problem_of_a_run_makes_it_unknown(metadata: RunMetadata, code: str) -> None:
    verdict = verdict_of(metadata)
    assert verdict.validity is Validity.UNKNOWN
    assert [reason.code for reason in verdict.unknown_because] == [code]


def test_a_killed_run_is_invalid_with_an_anomaly_and_else_unknown() -> None:
    assert verdict_of(killed=True).validity is Validity.UNKNOWN
    anomalies = replace(CLEAN, anomalies={"duplicate": AnomalyFindings(1, examples=[])})
    assert verdict_of(result=anomalies, killed=True).validity is Validity.INVALID


def test_equal_reasons_are_listed_once() -> None:
    duplicate = Reason(ReasonCode.INCOMPLETE_EVIDENCE, KILLED.text, "run")
    verdict = verdict_of(result=replace(CLEAN, broken={"run": duplicate, "duplicate": CRASHED}), killed=True)
    assert verdict.unknown_because == [structs.replace(KILLED, rule="run-killed"), CRASHED]


def test_a_crashed_check_makes_a_run_unknown_and_a_skipped_one_does_not() -> None:
    assert verdict_of(result=replace(CLEAN, broken={"duplicate": CRASHED})).validity is Validity.UNKNOWN
    assert (
        verdict_of(result=replace(CLEAN, not_checked={"duplicate": NEEDS["log"]})).validity is Validity.VALID
    )


def test_a_forbidden_anomaly_makes_a_run_invalid_and_an_allowed_one_does_not() -> None:
    allowed = replace(CLEAN, anomalies={"duplicate": AnomalyFindings(1, examples=[], allowed=True)})
    assert verdict_of(result=allowed).validity is Validity.VALID
    both = replace(
        CLEAN, anomalies={"duplicate": AnomalyFindings(1, examples=[])}, broken={"unseen": CRASHED}
    )
    assert verdict_of(result=both).validity is Validity.INVALID


def test_a_run_without_an_abort_is_unknown() -> None:
    verdict = verdict_of(result=replace(CLEAN, coverage={"inputs": 10, "aborted": 0}))
    assert verdict.validity is Validity.UNKNOWN
    assert "aborted-read" in verdict.not_exercised


def test_a_run_with_abort_share_0_is_valid_and_says_so() -> None:
    nothing_aborted = replace(CLEAN, coverage={"inputs": 10, "aborted": 0})
    verdict = verdict_of(result=nothing_aborted, options=Options(seed=1, abort_share=0.0))
    assert verdict.validity is Validity.VALID
    assert "abort-share is 0" in verdict.not_exercised["aborted-read"]


def test_a_worker_that_ended_by_itself_is_a_warning() -> None:
    warning = unexpected_end("shop-1.0", "shop-1.0 ended by itself: Segmentation fault")
    verdict = verdict_of(RunMetadata(faults=[ACTED], unexpected_errors=[warning]))
    assert verdict.validity is Validity.VALID
    assert verdict.warnings == [warning]


def test_unscheduled_faults_are_listed_and_change_nothing() -> None:
    verdict = verdict_of(RunMetadata(faults=[ACTED], unscheduled={"partition": "no room"}))
    assert verdict.validity is Validity.VALID
    assert verdict.not_exercised == {"partition": "no room"}


@pytest.mark.parametrize(
    ("metadata", "known"),
    [
        (RunMetadata(), True),
        (RunMetadata(faults=[ACTED, structs.replace(ACTED, end_s=None, acted=False)]), True),
        (RunMetadata(faults=[ACTED, structs.replace(ACTED, end_s=None)]), False),
        (RunMetadata(faults=[structs.replace(ACTED, end_s=None)], phases=[HEAL]), True),
    ],
)
def test_heals_are_known_from_the_ends_of_the_faults_or_from_the_heal_phase(
    metadata: RunMetadata, known: bool
) -> None:
    assert heals_known(metadata) is known


def test_a_requested_fault_that_was_not_planned_makes_a_run_unknown() -> None:
    named = Options(seed=1, nemesis=("pause-worker", "partition"))
    verdict = verdict_of(RunMetadata(faults=[ACTED]), options=named)
    assert verdict.validity is Validity.UNKNOWN
    assert "partition was requested, and the schedule does not have it" in {
        r.text for r in verdict.unknown_because
    }


def test_a_fault_with_a_weight_need_not_be_planned() -> None:
    for names in (("pause-worker=1", "kill-broker"), ("random",)):
        assert verdict_of(options=Options(seed=1, nemesis=names)).validity is Validity.VALID


def test_a_run_whose_faults_have_weights_and_that_has_no_fault_is_unknown() -> None:
    for names in (("pause-worker=1", "kill-broker"), ("random",)):
        options = Options(seed=1, nemesis=names)
        verdict = verdict_of(RunMetadata(faults=[]), planned_faults=0, options=options)
        assert verdict.validity is Validity.UNKNOWN
        assert f"{', '.join(names)} was requested, and the schedule has no fault" in {
            r.text for r in verdict.unknown_because
        }


@pytest.mark.parametrize(
    ("windows", "overlapped"),
    [
        ([("kill-broker", 1.0, 9.0), ("partition", 8.0, 12.0)], True),
        ([("kill-broker", 1.0, 9.0), ("partition", 9.0, 12.0)], False),
        ([("kill-broker", 1.0, 9.0)], False),
        ([("kill-broker", 1.0, 2.0), ("partition", 3.0, 4.0), ("kill-broker", 3.5, 9.0)], True),
    ],
)
def test_faults_that_should_overlap_and_did_not_make_a_run_unknown(
    windows: list[tuple[str, float, float]], overlapped: bool
) -> None:
    faults = [
        structs.replace(ACTED, fault=fault, start_s=start_s, end_s=end_s) for fault, start_s, end_s in windows
    ]
    schedule = [PLANNED | {"fault": fault} for fault in ("kill-broker", "partition")]
    for names in (("kill-broker@controller+partition",), ("kill-broker+partition=2", "kill-worker")):
        plan = StoredPlan(Options(seed=1, nemesis=names), RUN, schedule, WORKLOAD.as_table())
        verdict = decide(Evidence("h", Path("h"), plan, RunMetadata(faults=faults), differences=()), CLEAN)
        text = f"{names[0]} was not exercised: its faults were never active at the same time"
        assert (text in {reason.text for reason in verdict.unknown_because}) != overlapped


def test_the_same_fault_twice_must_be_active_twice_at_a_time() -> None:
    names = ("kill-worker+kill-worker",)
    schedule = [PLANNED | {"fault": "kill-worker"}] * 2
    plan = StoredPlan(Options(seed=1, nemesis=names), RUN, schedule, WORKLOAD.as_table())
    once = structs.replace(ACTED, fault="kill-worker")
    for faults, overlapped in (([once], False), ([once, structs.replace(once, start_s=2.0)], True)):
        verdict = decide(Evidence("h", Path("h"), plan, RunMetadata(faults=faults), differences=()), CLEAN)
        assert any("never active" in reason.text for reason in verdict.unknown_because) != overlapped


ONCE_OR_MORE = replace(WORKLOAD, guarantee=Guarantee.AT_LEAST_ONCE, allowed=("reprocessed-input",))


@pytest.mark.parametrize(
    ("count", "summary"),
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
def test_the_summary_counts_the_anomalies_that_the_guarantee_permits(count: int, summary: str) -> None:
    anomalies = (
        {"reprocessed-input": AnomalyFindings(count, examples=[], allowed=True, allowed_by="the workload")}
        if count
        else {}
    )
    result = replace(CLEAN, anomalies=anomalies, checked=["reprocessed-input", "lost-input"])
    plan = StoredPlan(Options(seed=1), RUN, [PLANNED], ONCE_OR_MORE.as_table())
    verdict = decide(Evidence("h", Path("h"), plan, RunMetadata(faults=[ACTED]), differences=()), result)
    assert (verdict.validity, verdict.summary) == (Validity.VALID, summary)
    assert ("reprocessed-input" in verdict.not_exercised) is (count == 0)


def test_the_summary_counts_each_permitted_anomaly_separately() -> None:
    anomalies = {
        name: AnomalyFindings(count, examples=[], allowed=True, allowed_by="the workload", words=words)
        for name, count, words in (("reprocessed-input", 3, ""), ("duplicate", 2, "2 values are duplicates"))
    }
    result = replace(CLEAN, anomalies=anomalies, checked=[*anomalies, "lost-input"])
    permissive = replace(ONCE_OR_MORE, allowed=tuple(anomalies))
    plan = StoredPlan(Options(seed=1), RUN, [PLANNED], permissive.as_table())
    verdict = decide(Evidence("h", Path("h"), plan, RunMetadata(faults=[ACTED]), differences=()), result)
    assert verdict.summary == (
        "at least once held under 1 fault: 3 inputs took effect more than once, 2 values are duplicates, "
        "and none of 10 inputs was lost"
    )


def test_exactly_once_permits_no_anomaly() -> None:
    assert verdict_of(result=replace(CLEAN, checked=["reprocessed-input", "lost-input"])).not_exercised == {}


def test_requested_crash_points_must_all_be_planned() -> None:
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
    reports = [
        FaultReport(planned["fault"], "w", 1.0, 2.0, True, "seen", "w was killed")
        for planned in planned_faults
    ]  # type: ignore[arg-type]
    plan = StoredPlan(Options(seed=1, nemesis=("crash-points",)), RUN, planned_faults, workload.as_table())
    verdict = decide(Evidence("h", Path("h"), plan, RunMetadata(faults=reports), differences=()), CLEAN)
    assert [reason.subject for reason in verdict.unknown_because] == ["pause-worker@after-send"]


APART = Options(seed=1, nemesis=("kill-broker+kill-broker",))
BY_RULE: dict[str, tuple[RunMetadata | None, Options]] = {
    "interrupted": (RunMetadata(faults=[ACTED], interrupted=True), Options(seed=1)),
    "run-killed": (None, Options(seed=1)),
    "fault-did-not-act": (RunMetadata(faults=[structs.replace(ACTED, acted=False)]), Options(seed=1)),
    "fault-without-evidence": (RunMetadata(faults=[structs.replace(ACTED, evidence="")]), Options(seed=1)),
    "fault-backwards": (RunMetadata(faults=[structs.replace(ACTED, end_s=0.5)]), Options(seed=1)),
    "fault-not-healed": (RunMetadata(faults=[structs.replace(ACTED, end_s=None)]), Options(seed=1)),
    "fault-not-planned": (RunMetadata(faults=[ACTED]), Options(seed=1, nemesis=("partition",))),
    "faults-apart": (RunMetadata(faults=[ACTED]), APART),
    "faults-not-carried-out": (RunMetadata(faults=[]), Options(seed=1)),
    "goal-not-met": (RunMetadata(faults=[ACTED], unmet_goals={"zombie": "none came back"}), Options(seed=1)),
    "protocol-journal-changed": (RunMetadata(faults=[ACTED]), Options(seed=1)),
}
"""By rule, the metadata and options for which it fires."""


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_every_rule_about_plan_and_metadata_fires(name: str) -> None:
    metadata, options = BY_RULE[name]
    plan = StoredPlan(options, RUN, [PLANNED], WORKLOAD.as_table())
    change = f"{JOURNAL} is missing" if name == "protocol-journal-changed" else ""
    assert {gap.rule.name for gap in apply_rules(RULES, CheckedRun(plan, metadata, CLEAN, change))} == {name}


def test_what_follows_from_a_kill_comes_after_it_and_names_it() -> None:
    gap = Reason(ReasonCode.INCOMPLETE_EVIDENCE, "nothing was read", "nothing read", because=KILLED.key)
    incomplete = Reason(ReasonCode.INCOMPLETE_EVIDENCE, KILLED.text, "run")
    result = replace(CLEAN, broken={"unseen": CRASHED, "nothing read": gap, "run": incomplete})
    verdict = verdict_of(result=replace(result, coverage={"aborted": 0}), killed=True)
    assert [reason.key for reason in verdict.unknown_because] == [
        "run-killed",
        "nothing read",
        "aborted-read",
        "check-crashed",
    ]
    assert verdict.unknown_because[2].because == "run-killed"
    assert verdict.summary == f"{KILLED.text} (and 2 consequences of it, and 1 more reason)"


def test_a_run_that_was_cut_short_did_not_carry_out_its_faults_for_that_reason() -> None:
    problem = Reason(ReasonCode.PIPELINE_FAILED, "shop-1.0 ended eight times")
    (cause, late) = verdict_of(RunMetadata(faults=[], evidence_problems=[problem])).unknown_because
    assert (cause, late.code, late.because) == (problem, ReasonCode.FAULTS_NOT_CARRIED_OUT, "pipeline-failed")
