"""The conformance suite of `Member`: what faults can do to a worker and to an instance in the same way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.protocol.observed_clients import ObservedClients
from harness.runner.nemesis import PlannedFault, Target
from harness.testing.fake_cluster import FakeCluster
from harness.testing.fake_network import FakeNetwork
from nemeses.effects.instance_member import InstanceMember
from nemeses.effects.member import ZOMBIE, Member
from nemeses.effects.worker_member import WorkerMember
from tests.support.fake_run import FENCED_ZOMBIE, IDLE, FakeRun, Script, fake_run
from tests.support.instances import COMPLETED, ONGOING, WritingCluster, journal_names, run_instance

pytestmark = [pytest.mark.processes, pytest.mark.parametrize("kind", [WorkerMember, InstanceMember])]


@contextmanager
def found(
    kind: type[Member], folder: Path, *, moment: bool = True, others: bool = True, time_scale: float = 0.01
) -> Iterator[tuple[FakeRun, Member]]:
    """A run with one member as the target of a fault.

    `moment`: whether it comes to the step or the state of the fault. `others`: whether others take over from it.
    """
    aim = {"step": "after-send"} if kind is WorkerMember else {"state": "ongoing"}
    planned = PlannedFault("pause", Target("worker", "s/s-1"), 0.0, 0.05, aim)
    if kind is WorkerMember:
        workers = FakeCluster()
        if others:
            workers.next_offsets["g"] = {("in", 0): 10}
        program = Script(FENCED_ZOMBIE if moment else IDLE)
        with fake_run(folder, program, workers, time_scale=time_scale) as run:
            run.processes.await_ready([run.processes.start_worker("s", "s-1")])
            yield run, kind.find(run.context, planned)
        return
    instances = WritingCluster(
        groups={"g": [("a",)] * 4 + ([("b",)] if others else [])},
        network=FakeNetwork(clients={"w0": ObservedClients(members={"g": ("a",)})}),
        transactions={"s-1": [ONGOING if moment else COMPLETED]},
    )
    with run_instance(folder, instances, time_scale=time_scale) as (run, _):
        yield run, kind.find(run.context, planned)


def test_a_member_is_named_in_the_effect_and_no_fault_is_injected_yet(
    kind: type[Member], tmp_path: Path
) -> None:
    with found(kind, tmp_path) as (_, member):
        assert member.effect.target == f"{member.noun} s-1.0"
        assert member.effect.details == {"worker": "s-1.0"}
        assert member.stage.name == "s" and member.process.child.running
        assert member.effect.injected_ns is None and not member.effect.acted


def test_a_held_member_can_be_killed_and_replaced(kind: type[Member], tmp_path: Path) -> None:
    with found(kind, tmp_path) as (run, member):
        with member.held() as held:
            assert held and member.process.child.poll() is None
            member.kill()
        assert member.effect.acted and member.effect.injected_ns is not None
        assert member.effect.proof[-1].endswith(f"process {member.process.child.pid} ended by SIGKILL")
        assert member.replace().alive and journal_names(run) == ["s-1.0", "s-1.1"]
        run.processes.replace_dead()
        assert run.processes.unexpected_ends == []


def test_a_paused_member_continues_after_others_have_taken_over(kind: type[Member], tmp_path: Path) -> None:
    with found(kind, tmp_path) as (run, member):
        with member.held_with_inputs(True) as held:
            assert held
            member.pause()
        assert member.process.child.paused and not member.effect.acted
        progress = member.await_others(True)
        assert progress and journal_names(run) == ["s-1.0", "s-1.1"]
        member.observe()
        member.resume(True)
        member.await_recovery()
        member.prove_return(progress)
        assert not member.process.child.paused
        assert member.effect.acted and member.effect.unmet_goals == {}
        assert any(progress in proof for proof in member.effect.proof)


def test_a_paused_member_from_which_nobody_takes_over_is_no_zombie(
    kind: type[Member], tmp_path: Path
) -> None:
    with found(kind, tmp_path, others=False, time_scale=0.002) as (run, member):
        with member.held_with_inputs(False) as held:
            assert held
            member.pause()
        progress = member.await_others(False)
        member.resume(False)
        member.prove_return(progress)
        assert progress == "" and journal_names(run) == ["s-1.0"]
        assert not member.effect.acted and "s-1.0 was paused, but" in member.effect.unmet_goals[ZOMBIE]
        assert member.process.child.running


@pytest.mark.parametrize("with_inputs", [True, False])
def test_a_member_that_does_not_come_to_the_moment_runs_and_has_the_reason(
    with_inputs: bool, kind: type[Member], tmp_path: Path
) -> None:
    with found(kind, tmp_path, moment=False, time_scale=0.002) as (run, member):
        with member.held_with_inputs(True) if with_inputs else member.held() as held:
            assert not held
        (reason,) = member.effect.unmet_goals.values()
        assert reason.startswith("waited ") and "s-1.0" in reason
        assert member.effect.injected_ns is None and not member.effect.acted
        assert member.process.child.running and journal_names(run) == ["s-1.0"]
