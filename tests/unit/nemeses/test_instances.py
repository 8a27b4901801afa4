"""Instances of a custom pipeline are killed once they are ready, with all processes that they have started."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import TransactionView
from harness.processes.specs import ProgramRules
from harness.protocol.observed_clients import ObservedClients
from harness.runner.nemesis import (
    PlannedFault,
    Target,
)
from harness.runner.run_process import RunProcess
from harness.testing.fake_cluster import FakeCluster
from harness.testing.fake_network import FakeNetwork
from nemeses.aiming.in_transaction import GOAL as STATE
from nemeses.registry import NEMESES
from tests.support.fake_run import CUSTOM_PIPELINE, FakeRun, ShellProgram, fake_run
from tests.support.instances import (
    COMPLETED,
    FAULTS,
    ONGOING,
    RUNS_FOREVER,
    WritingCluster,
    inject,
    journal_names,
    run_instance,
)

pytestmark = pytest.mark.processes

ENDS_WHEN_RESUMED = "trap 'exit 1' CONT; echo up; while :; do sleep 0.02; done"


def test_an_instance_is_killed_with_its_child_processes_and_started_again(tmp_path: Path) -> None:
    launcher = ShellProgram("echo up; sleep 600; true", ProgramRules("up"))
    with run_instance(tmp_path, WritingCluster(), launcher) as (run, member):
        effect = inject(run, "kill-instance")
        assert effect.acted and effect.unmet_goals == {} and effect.injected_ns is not None
        assert member.child.ending().endswith("ended by SIGKILL") and member.child.ending() in effect.proof
        assert journal_names(run) == ["s-1.0", "s-1.1"] and run.processes.all_processes[1].alive
        assert effect.target == "instance s-1.0"


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("state", [None, "ongoing"])
def test_the_fault_waits_until_the_instance_is_ready_and_its_stage_writes(
    fault: str, state: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    high_watermarks = [5, 5, 6]
    late = ShellProgram(f"sleep 0.05; {ENDS_WHEN_RESUMED}", ProgramRules("up"))
    cluster = FakeCluster(
        transactions={"s-1": [ONGOING]},
        groups={"g": [*[("a",)] * 3, ("b",)]},
        network=FakeNetwork(clients={"w0": ObservedClients(members={"g": ("a",)})}),
    )
    with fake_run(tmp_path, late, cluster, pipeline=CUSTOM_PIPELINE, time_scale=0.1) as run:
        member = run.processes.start_worker("s", "s-1")

        def log_offsets(topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
            assert member.status.ready and member.alive
            return {("out", 0): (0, 0, high_watermarks.pop(0))}

        monkeypatch.setattr(run.cluster, "log_offsets", log_offsets)
        effect = inject(run, fault, state)
        assert effect.acted and high_watermarks == []
        assert "the stage was not seen to write" not in "; ".join(effect.proof)


@pytest.mark.parametrize("looks", [[ONGOING], [COMPLETED]])
def test_the_fault_reports_that_the_stage_was_not_seen_to_write(
    looks: list[TransactionView], tmp_path: Path
) -> None:
    cluster = FakeCluster(transactions={"s-1": looks}, ends={("out", 0): (0, 7, 7)})
    with run_instance(tmp_path, cluster, time_scale=0.001) as (run, _):
        effect = inject(run, "kill-instance", "ongoing")
    words = "; ".join(effect.proof) if effect.acted else effect.unmet_goals[STATE]
    assert effect.acted == (looks == [ONGOING])
    assert (
        "the stage was not seen to write before the fault: waited 0.02 s for s to write; last seen: its output topics "
        "end at 7 records, as at the first look" in words
    )


def end_before_pause(run: FakeRun, member: RunProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an instance end by itself right before it is stopped, when its replacement is ready."""
    stop = member.child.pause

    def pause() -> str:
        member.child.kill()
        run.processes.await_ready([run.processes.replace(member)])
        return stop()

    monkeypatch.setattr(member.child, "pause", pause)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("state", [None, "ongoing"])
def test_the_replacement_is_the_target_if_the_instance_ends_before_it_is_stopped(
    fault: str, state: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = WritingCluster(
        transactions={"s-1": [ONGOING]},
        groups={"g": [*[("a",)] * 4, ("b",)]},
        network=FakeNetwork(clients={"w0": ObservedClients(members={"g": ("a",)})}),
    )
    with run_instance(tmp_path, cluster) as (run, member):
        end_before_pause(run, member, monkeypatch)
        effect = inject(run, fault, state)
        assert effect.acted and effect.unmet_goals == {} and effect.target == "instance s-1.1"
        assert effect.details["worker"] == "s-1.1" and journal_names(run) == ["s-1.0", "s-1.1", "s-1.2"]
        assert effect.proof[0] == "s-1.0 ended by itself before the injection: up"
        assert run.processes.all_processes[1].alive == (fault == "pause-instance")


def test_only_a_few_replacements_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_instance(tmp_path, WritingCluster()) as (run, member):
        start = run.processes.start_worker

        def start_worker(stage: str, worker: str) -> RunProcess:
            instance = start(stage, worker)
            end_before_pause(run, instance, monkeypatch)
            return instance

        monkeypatch.setattr(run.processes, "start_worker", start_worker)
        end_before_pause(run, member, monkeypatch)
        effect = inject(run, "kill-instance")
        assert not effect.acted and "to be stopped by SIGSTOP" in effect.unmet_goals[STATE]
        assert effect.target == "instance s-1.3"


def test_the_replacement_is_killed_if_the_instance_ends_during_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    high_watermarks = [5, 5, 6]
    with run_instance(tmp_path, FakeCluster(), time_scale=0.1) as (run, member):

        def log_offsets(topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
            if len(high_watermarks) == 2:
                member.expected_to_end = True
                member.child.kill()
                run.processes.replace(member)
            return {("out", 0): (0, 0, high_watermarks.pop(0))}

        monkeypatch.setattr(run.cluster, "log_offsets", log_offsets)
        effect = inject(run, "kill-instance")
        assert effect.acted and effect.target == "instance s-1.1" and high_watermarks == []
        assert journal_names(run) == ["s-1.0", "s-1.1", "s-1.2"]


@pytest.mark.parametrize(
    ("changes", "is_seen"),
    [({"works_within_s": 10_000.0}, True), ({"idle_s": 10_000.0, "group": None}, False)],
)
def test_a_fault_waits_for_works_within_s_and_not_for_idle_s(
    changes: dict[str, Any], is_seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stage,) = CUSTOM_PIPELINE.stages
    pipeline = replace(CUSTOM_PIPELINE, stages=(replace(stage, **changes),))
    with fake_run(tmp_path, RUNS_FOREVER, pipeline=pipeline, time_scale=0.001) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        writes_from_s = time.monotonic() + 0.1  # the usual wait ends after 0.02 s

        def log_offsets(topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
            return {("out", 0): (0, 0, 5 + (time.monotonic() > writes_from_s))}

        monkeypatch.setattr(run.cluster, "log_offsets", log_offsets)
        effect = inject(run, "kill-instance")
        assert effect.acted and ("the stage was not seen to write" not in "; ".join(effect.proof)) is is_seen


def test_an_instance_that_ends_before_the_state_is_reported_with_its_last_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_instance(tmp_path, WritingCluster()) as (run, member):
        monkeypatch.setattr(
            run.cluster, "describe_transaction", lambda transactional_id: member.child.kill() and None
        )
        planned = PlannedFault("kill-instance", Target("worker", "s/s-1"), 0.0, 0.05, {"state": "ongoing"})
        with NEMESES["kill-instance"].inject(run.context, planned) as effect:
            pass
        assert not effect.acted and "it ended: up" in effect.unmet_goals[STATE]
