"""The liveness of the faults of a stored run, and why it may not be known."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from checkers.gaps.progress import LEFT_INPUTS
from checkers.recovery.measure import Recovery, measure_recovery
from fencepost import registry
from fencepost.checks.evidence import Evidence
from fencepost.checks.verdict_rules import decide
from harness.common.documents import decode, encode
from harness.model.pipeline import PipelineSpec, StageSpec, TopicSpec
from harness.model.promises import Promises
from harness.model.vocabulary import Premise
from harness.results.reasons import Reason, ReasonCode
from harness.results.recovery import Liveness
from harness.results.run_metadata import RunMetadata, RunPhase
from harness.results.verdict import CheckResult, FaultReport, Validity, Verdict
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan
from tests.support.changed_requests import ZERO_NS, write_held_requests
from tests.support.log_tables import (
    IN,
    OFFSETS,
    OUT,
    ZERO_MS,
    batch,
    marker,
    offset_commit,
    plain,
    state,
    write_run,
)

FAULT = FaultReport("kill-broker", "broker 2", 20.0, 28.0, True, "proof", "broker 2 was killed", halts=False)
PIPELINE = PipelineSpec(
    "billing",
    (TopicSpec("in", 1), TopicSpec("out", 1)),
    (StageSpec("bill", ("in",), "g", writes=("out",)),),
)
METADATA = RunMetadata(phases=(RunPhase("faults", 5.0, 40.0), RunPhase("drain", 40.0, 60.0)), faults=(FAULT,))


def plan(promises: Promises | None = None, **run: Any) -> StoredPlan:
    facts = {"id": 5, "wall_ms_at_zero": ZERO_MS, "session_timeout_ms": 2_000}
    promised = {"promises": asdict(promises or Promises())}
    return StoredPlan(Options(seed=1), facts | promised | run, (), PIPELINE.as_table())


def stored(folder: Path) -> Path:
    times = [10.0, 19.0, 31.5, 39.0]
    batches = [plain(IN, n, 10 + n) for n in range(31)]
    for n, at in enumerate(times):
        batches += [batch(OUT, 2 * n, at - 0.1), marker(OUT, 2 * n + 1, at)]
    states = [state("Ongoing", 9, 0), state("CompleteCommit", 10, 1)]
    write_run(folder, batches=batches, offsets=[], transactions=states)
    return folder


def recovery_of(folder: Path, used: StoredPlan, metadata: RunMetadata | None) -> Recovery:
    return measure_recovery(folder, used.pipeline, used.promises, used.run, metadata)


def liveness_of(folder: Path, used: StoredPlan, metadata: RunMetadata = METADATA) -> Liveness:
    (fault,) = recovery_of(folder, used, metadata).faults
    assert fault.liveness is not None
    return fault.liveness


def test_each_fault_that_acted_has_its_liveness(tmp_path: Path) -> None:
    measured = liveness_of(stored(tmp_path), plan())
    assert measured.not_known is None
    assert (measured.first_commit_s, measured.first_commit_after_heal_s) == (11.5, 3.5)
    assert (measured.longest_gap_s, measured.worst_partition) == (11.5, "out/0")
    assert measured.bound_s == 27.0


def test_the_time_out_of_a_program_of_the_user_is_not_known_so_the_default_counts(tmp_path: Path) -> None:
    (stage,) = PIPELINE.stages
    program = replace(PIPELINE, stages=(replace(stage, journaled=False),))
    used = replace(plan(), workload=program.as_table())
    assert liveness_of(stored(tmp_path), used).bound_s == 70.0


def test_a_rule_counts_from_the_first_message_on_which_it_acted(tmp_path: Path) -> None:
    write_held_requests(stored(tmp_path), "id-1", sent_s=22.0)
    (tmp_path / "run.toml").write_text(
        f"[run]\nmonotonic_ns_at_zero = {ZERO_NS}\nwall_ms_at_zero = {ZERO_MS}\n"
    )
    metadata = structs.replace(
        METADATA, faults=(structs.replace(FAULT, fault="late-end-txn", details={"rule": "late-end-txn-3"}),)
    )
    assert liveness_of(tmp_path, plan(), metadata).first_commit_s == 9.5
    (tmp_path / "run.toml").write_text(f"[run]\nwall_ms_at_zero = {ZERO_MS}\n")  # the journal has no time
    assert liveness_of(tmp_path, plan(), metadata).first_commit_s == 11.5


def test_a_fault_that_did_not_act_has_no_liveness(tmp_path: Path) -> None:
    metadata = structs.replace(METADATA, faults=(structs.replace(FAULT, acted=False), FAULT))
    idle, acted = recovery_of(stored(tmp_path), plan(), metadata).faults
    assert (idle.liveness, acted.liveness is None) == (None, False)
    clocks_differ = plan(Promises(one_clock=False))
    assert recovery_of(tmp_path, clocks_differ, metadata).faults[0].liveness is None


@pytest.mark.parametrize(
    ("used", "drift_ms", "why"),
    [
        (
            plan(Promises(one_clock=False)),
            None,
            "the clocks of the brokers are not the clock of this machine",
        ),
        (
            plan(Promises(broken_premises=(Premise.ONE_CLOCK.value,))),
            None,
            "a fault of this run changed a clock",
        ),
        (plan(), 501.0, "the wall clock moved by 501 ms against the monotonic one during the run"),
        (plan(), float("nan"), "the wall clock moved by nan ms"),
        (plan(wall_ms_at_zero=None), None, "run.toml does not say when the run began"),
    ],
)
def test_where_clocks_cannot_be_compared_nothing_is_known(
    tmp_path: Path, used: StoredPlan, drift_ms: float | None, why: str
) -> None:
    measured = liveness_of(stored(tmp_path), used, structs.replace(METADATA, clock_drift_ms=drift_ms))
    assert why in (measured.not_known or "")
    assert measured == Liveness(not_known=measured.not_known)


def test_without_a_commit_or_with_a_damaged_table_nothing_is_known(tmp_path: Path) -> None:
    assert liveness_of(tmp_path / "none", plan()).not_known == "no table of the run has a commit"
    (stored(tmp_path) / "log" / "batches.parquet").write_text("x")
    assert "log/batches.parquet cannot be read" in (liveness_of(tmp_path, plan()).not_known or "")


def test_a_run_without_metadata_has_no_faults(tmp_path: Path) -> None:
    assert recovery_of(tmp_path, plan(), None).faults == ()


def test_a_fault_during_which_nothing_can_be_committed_adds_its_duration_to_the_bound(tmp_path: Path) -> None:
    halting = structs.replace(METADATA, faults=(structs.replace(FAULT, halts=True),))
    assert liveness_of(stored(tmp_path), plan(), halting).bound_s == 35.0
    never_healed = structs.replace(METADATA, faults=(structs.replace(FAULT, halts=True, end_s=None),))
    assert liveness_of(tmp_path, plan(), never_healed).bound_s == 47.0


def test_a_stored_fault_is_judged_by_its_report_and_not_by_its_name(tmp_path: Path) -> None:
    of_another_version = structs.replace(FAULT, fault="a-fault-of-another-version")
    bound_s = {
        halts: liveness_of(
            stored(tmp_path),
            plan(),
            structs.replace(METADATA, faults=(structs.replace(of_another_version, halts=halts),)),
        ).bound_s
        for halts in (False, True, None)
    }
    assert bound_s == {False: 27.0, True: 35.0, None: 35.0}


def test_these_kinds_of_faults_halt_their_target() -> None:
    nemeses = registry.nemeses()
    assert {name for name, nemesis in nemeses.items() if nemesis.halts_at({})} == {
        "rule",
        "kill-postgres",
        "lose-answers",
        "cut-txn-coordinator",
        "late-produce",
        "one-way",
    }
    assert nemeses["kill-worker"].halts_at({"state": "prepare-commit"})
    assert nemeses["partition"].halts_at({"brokers": "1, 3", "role": "majority"})
    assert not nemeses["partition"].halts_at({"broker": "3", "role": "minority"})


def long_gap(folder: Path) -> Path:
    batches = [plain(IN, n, 10 + n / 2) for n in range(60)]
    batches += [
        batch(OFFSETS, 0, 10.9),
        marker(OFFSETS, 1, 11),
        batch(OFFSETS, 2, 50),
        marker(OFFSETS, 3, 51),
    ]
    commits = [offset_commit(0, 1, 10.9), offset_commit(2, 60, 50)]
    states = [state("Ongoing", 9, 0), state("CompleteCommit", 11, 1)]
    write_run(folder, batches=batches, offsets=commits, transactions=states)
    return folder


CLEAN = CheckResult({}, {}, {}, checked=["lost-write", "stalled"])


def decided(folder: Path, result: CheckResult = CLEAN, used: StoredPlan | None = None) -> Verdict:
    return decide(Evidence("h", folder, used or plan(), METADATA, differences=()), result)


def test_a_gap_beyond_the_bound_is_a_warning_of_a_valid_run(tmp_path: Path) -> None:
    verdict = decided(long_gap(tmp_path))
    findings = verdict.anomalies["stalled"]
    assert (verdict.validity, findings.count, findings.warning, findings.words) == (
        Validity.VALID,
        1,
        True,
        "1 group stalled",
    )
    (sentence,) = findings.sentences
    assert sentence.startswith("group g committed nothing for 31.0 s after kill-broker (the bound is 27.0 s)")
    assert sentence.endswith(", until 51.0 s, though input in/0 offset 1 was waiting")
    assert verdict.faults[0].liveness is not None
    assert encode(decode(encode(verdict), Verdict)) == encode(verdict)


@pytest.mark.parametrize(
    "result",
    [
        replace(CLEAN, checked=["lost-write"], not_checked={"stalled": Reason(ReasonCode.NO_LOGS, "none")}),
        replace(CLEAN, broken={"log of in/0": Reason(ReasonCode.INCOMPLETE_EVIDENCE, "it has a gap")}),
    ],
)
def test_without_complete_evidence_no_group_is_stalled(tmp_path: Path, result: CheckResult) -> None:
    assert "stalled" not in decided(long_gap(tmp_path), result).anomalies


def test_where_clocks_cannot_be_compared_it_is_not_checked_whether_a_group_stalled(tmp_path: Path) -> None:
    verdict = decided(long_gap(tmp_path), used=plan(wall_ms_at_zero=None))
    assert "stalled" not in (*verdict.anomalies, *verdict.checked)
    assert verdict.not_checked["stalled"] == "run.toml does not say when the run began"


def stopped_while_waiting(folder: Path, last_input: float) -> Path:
    """Write a run whose group committed all inputs until 51 s. One more comes later; the drain ends at 60 s."""
    long_gap(folder)
    batches = [plain(IN, n, 10 + n / 2) for n in range(60)] + [plain(IN, 60, last_input)]
    batches += [
        batch(OFFSETS, n, at) if n % 2 == 0 else marker(OFFSETS, n, at)
        for n, at in enumerate((20, 21, 35, 36, 50, 51))
    ]
    commits = [offset_commit(n, end, at) for n, end, at in ((0, 20, 20), (2, 50, 35), (4, 60, 50))]
    states = [state("Ongoing", 9, 0), state("CompleteCommit", 11, 1)]
    write_run(folder, batches=batches, offsets=commits, transactions=states)
    return folder


def test_an_input_that_waited_when_the_stages_were_stopped_is_not_decided(tmp_path: Path) -> None:
    verdict = decided(stopped_while_waiting(tmp_path, last_input=52))
    assert "stalled" not in verdict.anomalies
    (row,) = verdict.not_decided
    assert (row.check, row.count, row.subjects, row.noun) == ("stalled", 1, 1, "groups")
    assert row.why.startswith(
        "the group committed nothing in the 8.0 s before the stages were stopped, though "
    )
    assert row.why.endswith("its time-outs explain up to 27.0 s")
    (sentence,) = row.sentences
    assert sentence.startswith("g in in/0: the last commit at 51.0 s, 31.0 s after broker 2 was killed; ")
    assert sentence.endswith("the input at offset 60 waited until the end")
    assert encode(decode(encode(verdict), Verdict)) == encode(verdict)


def test_an_input_that_came_after_the_stages_were_stopped_is_no_standstill(tmp_path: Path) -> None:
    assert not decided(stopped_while_waiting(tmp_path, last_input=60)).not_decided


def test_a_stall_without_complete_evidence_is_not_decided(tmp_path: Path) -> None:
    broken = replace(CLEAN, broken={"log of in/0": Reason(ReasonCode.INCOMPLETE_EVIDENCE, "it has a gap")})
    (row,) = decided(long_gap(tmp_path), broken).not_decided
    assert (row.check, row.count) == ("stalled", 1)
    assert row.why == "commits are missing, but evidence is missing too, so they may have been made"
    assert row.sentences == []


def test_inputs_without_outputs_do_not_hide_the_stall_that_leads_to_them(tmp_path: Path) -> None:
    left = Reason(ReasonCode.INCOMPLETE_EVIDENCE, "9 inputs of stage s led to no output", rule=LEFT_INPUTS)
    verdict = decided(long_gap(tmp_path), replace(CLEAN, broken={"left by s": left}))
    assert verdict.anomalies["stalled"].count == 1
    assert not verdict.not_decided
