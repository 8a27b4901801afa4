"""Instances of a user's program are killed: once they are ready, with all that they have started."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster import TransactionView
from harness.processes.program import ProgramRules
from harness.runner.member import RunProcess
from harness.runner.nemesis import (
    PlannedFault,
    Target,
)
from harness.testing.fake_cluster import FakeCluster
from harness.witness.request_log import ObservedClientIds
from nemeses.aiming.in_transaction import GOAL as STATE
from nemeses.effects import instances
from nemeses.registry import NEMESES
from tests.support.fake_run import USERS, FakeRun, Plain, fake_run
from tests.support.instances import DONE, FAULTS, OPEN, STAYS, journals, running, struck

pytestmark = pytest.mark.usefixtures("soon")


def test_one_is_killed_with_all_that_it_has_started_and_started_again(tmp_path: Path) -> None:
    launcher = Plain("echo up; sleep 600; true", ProgramRules("up"))
    with running(tmp_path, FakeCluster(), launcher) as (run, member):
        effect = struck(run, "kill-instance")
        assert effect.acted and effect.unmet_goals == {} and effect.injected_ns is not None
        assert member.child.ending().endswith("ended by SIGKILL") and member.child.ending() in effect.proof
        assert journals(run) == ["s-1.0", "s-1.1"] and run.processes.members[1].alive
        assert effect.target == "instance s-1.0"


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("state", [None, "ongoing"])
def test_one_is_struck_once_it_is_ready_and_its_stage_writes(
    fault: str, state: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 10.0)  # its start is part of it
    highs = [5, 5, 6]
    late = Plain("sleep 0.3; echo up; exec sleep 600", ProgramRules("up"))
    cluster = FakeCluster(transactions={"s-1": [OPEN]}, groups={"g": [("a",), ("a",), ("b",)]})
    with fake_run(tmp_path, late, cluster, pipeline=USERS) as run:
        member = run.processes.start_worker("s", "s-1")

        def log_offsets(topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
            assert member.status.ready and member.alive
            return {("out", 0): (0, 0, highs.pop(0))}

        monkeypatch.setattr(run.cluster, "log_offsets", log_offsets)
        effect = struck(run, fault, state)
        assert effect.acted and highs == []
        assert "it was not seen at work before" not in "; ".join(effect.proof)


@pytest.mark.parametrize("looks", [[OPEN], [DONE]])
def test_a_stage_that_was_not_seen_to_write_is_told_with_the_fault(
    looks: list[TransactionView], tmp_path: Path
) -> None:
    cluster = FakeCluster(transactions={"s-1": looks}, ends={("out", 0): (0, 7, 7)})
    with running(tmp_path, cluster) as (run, _):
        effect = struck(run, "kill-instance", "ongoing")
    told = "; ".join(effect.proof) if effect.acted else effect.unmet_goals[STATE]
    assert effect.acted == (looks == [OPEN])
    assert (
        "it was not seen at work before: waited 0.5 s for s to write; last seen: its output topics end at 7 records, "
        "as at the first look" in told
    )


class Writes(FakeCluster):
    """A cluster on which the output topic is longer at each look."""

    looks = 0

    def log_offsets(self, topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
        self.looks += 1
        return {("out", 0): (0, self.looks, self.looks)}


def ends_before(run: FakeRun, member: RunProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an instance end by itself right before it is stopped, and another one take its place."""
    stop = member.child.pause

    def pause() -> str:
        member.child.kill()
        run.processes.replace(member)
        return stop()

    monkeypatch.setattr(member.child, "pause", pause)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("state", [None, "ongoing"])
def test_of_one_that_ends_right_before_it_is_stopped_the_replacement_is_struck(
    fault: str, state: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 10.0)
    cluster = Writes(
        transactions={"s-1": [OPEN]},
        groups={"g": [*[("a",)] * 4, ("b",)]},
        observed_ids={"w0": ObservedClientIds(frozenset({("g", "a")}))},
    )
    with running(tmp_path, cluster) as (run, member):
        ends_before(run, member, monkeypatch)
        effect = struck(run, fault, state)
        assert effect.acted and effect.unmet_goals == {} and effect.target == "instance s-1.1"
        assert effect.details["worker"] == "s-1.1" and journals(run) == ["s-1.0", "s-1.1", "s-1.2"]
        assert effect.proof[0] == "s-1.0 ended by itself before the injection: up"
        assert run.processes.members[1].alive == (fault == "pause-instance")


def test_only_a_few_replacements_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 10.0)
    with running(tmp_path, Writes()) as (run, member):
        start = run.processes.start_worker

        def start_worker(stage: str, worker: str) -> RunProcess:
            started = start(stage, worker)
            ends_before(run, started, monkeypatch)
            return started

        monkeypatch.setattr(run.processes, "start_worker", start_worker)
        ends_before(run, member, monkeypatch)
        effect = struck(run, "kill-instance")
        assert not effect.acted and "to be stopped by SIGSTOP" in effect.unmet_goals[STATE]
        assert effect.target == "instance s-1.3"


def test_who_took_the_place_of_one_that_ended_before_it_was_struck_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 10.0)
    highs = [5, 5, 6]
    with running(tmp_path, FakeCluster(), STAYS) as (run, member):

        def log_offsets(topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
            if len(highs) == 2:
                member.expected_to_end = True
                member.child.kill()
                run.processes.replace(member)
            return {("out", 0): (0, 0, highs.pop(0))}

        monkeypatch.setattr(run.cluster, "log_offsets", log_offsets)
        effect = struck(run, "kill-instance")
        assert effect.acted and effect.target == "instance s-1.1" and highs == []
        assert journals(run) == ["s-1.0", "s-1.1", "s-1.2"]


def test_a_stage_that_may_be_silent_for_long_is_waited_for_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 0.01)
    (users,) = USERS.stages
    alone = replace(USERS, stages=(replace(users, group=None, idle_s=10.0),))
    highs = [5] * 5 + [6]
    with fake_run(tmp_path, STAYS, pipeline=alone) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        monkeypatch.setattr(run.cluster, "log_offsets", lambda _: {("out", 0): (0, 0, highs.pop(0))})
        assert struck(run, "kill-instance").acted and highs == []


def test_one_that_ends_meanwhile_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, FakeCluster()) as (run, member):
        monkeypatch.setattr(run.cluster, "describe_transaction", lambda own: member.child.kill() and None)
        injection = PlannedFault("kill-instance", Target("worker", "s/s-1"), 0.0, 0.05, {"state": "ongoing"})
        with NEMESES["kill-instance"].inject(run.context, injection) as effect:
            pass
        assert not effect.acted and "it ended: up" in effect.unmet_goals[STATE]
