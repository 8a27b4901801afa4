"""Instances of a custom pipeline leave their group cleanly and join it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fencepost.registry import aim
from harness.processes.specs import ProgramRules
from harness.protocol.observed_clients import ObservedClients
from harness.runner.nemesis import InjectedFault, NoTarget, NotForThisPipeline, PlannedFault, Target
from harness.runner.run_process import RunProcess
from harness.testing.fake_network import FakeNetwork
from nemeses.effects.membership import JOINED, LEFT
from nemeses.registry import NEMESES
from tests.support.fake_run import FakeRun, ShellProgram
from tests.support.instances import RUNS_FOREVER, WritingCluster, journal_names, run_instance
from tests.unit.nemeses.test_unreplaced import TARGETS

pytestmark = pytest.mark.processes

LEAVES = ShellProgram("trap 'exit 3' TERM; echo up; while :; do sleep 0.02; done", ProgramRules("up"))
STAYS = ShellProgram(
    "trap '' TERM; echo up; while :; do sleep 0.02; done", ProgramRules("up", stop_within_s=0.1)
)
RESTART = PlannedFault("restart-instance", Target("worker", "s/s-1"), 0.0, 0.05)
MORE = PlannedFault("scale-instances", Target("worker", "s/s-2"), 0.0, 0.05)
LESS = PlannedFault("scale-instances", Target("worker", "s/s-1"), 0.0, 0.05, {"role": "down"})


@contextmanager
def instance_in_group(
    folder: Path, *looks: str, program: ShellProgram = LEAVES, time_scale: float = 0.02
) -> Iterator[tuple[FakeRun, RunProcess]]:
    """A run with an instance that is the member `a`. Its group has these members at each look."""
    network = FakeNetwork(clients={"w0": ObservedClients(members={"g": ("a",)})})
    cluster = WritingCluster(groups={"g": [tuple(look) for look in looks]}, network=network)
    with run_instance(folder, cluster, program, time_scale=time_scale) as (run, member):
        yield run, member


def inject(run: FakeRun, planned: PlannedFault) -> InjectedFault:
    with NEMESES[planned.fault].inject(run.context, planned) as effect:
        run.processes.replace_dead()
    run.processes.replace_dead()
    assert run.processes.unexpected_ends == []
    return effect


def test_an_instance_exits_after_the_signal_and_a_new_one_joins(tmp_path: Path) -> None:
    with instance_in_group(tmp_path, "ab", "ab", "ab", "bc") as (run, member):
        effect = inject(run, RESTART)
        assert effect.acted and effect.unmet_goals == {} and effect.injected_ns is not None
        joined, left = effect.proof
        assert joined == "s-1.1 joined: g had 2 members, with c"
        assert left == (
            f"s-1.0 got SIGTERM: process {member.child.pid} ended with status 3; its group g went on without it (a), "
            "with 2 members"
        )
        assert journal_names(run) == ["s-1.0", "s-1.1"] and run.processes.all_processes[1].alive


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (STAYS, "it did not end within 0.002 s: process {pid} ended by SIGKILL"),
        (RUNS_FOREVER, "process {pid} ended by SIGTERM"),
    ],
)
@pytest.mark.parametrize("planned", [RESTART, LESS])
def test_an_instance_that_does_not_exit_did_not_leave_cleanly_and_is_started_again(
    planned: PlannedFault, program: ShellProgram, why: str, tmp_path: Path
) -> None:
    with instance_in_group(tmp_path, "ab", "ab", "ab", "bc", program=program) as (run, member):
        effect = inject(run, planned)
        assert not effect.acted
        ending = why.format(pid=member.child.pid)
        assert effect.unmet_goals == {LEFT: f"s-1.0 did not leave cleanly after SIGTERM: {ending}"}
        assert not member.alive and run.processes.all_processes[1].alive


@pytest.mark.parametrize(
    ("looks", "goal"),
    [
        (["ab", "ab", "ab", "abc"], LEFT),  # the old member stays in the group
        (["ab"], JOINED),
    ],
)
def test_a_group_that_does_not_change_is_no_proof(looks: list[str], goal: str, tmp_path: Path) -> None:
    with instance_in_group(tmp_path, *looks, time_scale=0.002) as (run, _):
        effect = inject(run, RESTART)
        assert not effect.acted and goal in effect.unmet_goals


@pytest.mark.parametrize("planned", [RESTART, MORE, LESS])
def test_no_instance_leaves_or_joins_if_the_group_is_never_stable(
    planned: PlannedFault, tmp_path: Path
) -> None:
    with instance_in_group(tmp_path, "ab", time_scale=0.001) as (run, member):
        run.cluster.groups["g"] = [None]
        effect = inject(run, planned)
        assert not effect.acted and "the group g to be stable" in next(iter(effect.unmet_goals.values()))
        assert member.alive and journal_names(run) == ["s-1.0"]


def test_an_instance_joins_and_leaves_at_the_heal(tmp_path: Path) -> None:
    with instance_in_group(tmp_path, "a", "ab", "ab", "ab", "a") as (run, member):
        run.cluster.network.clients["w1"] = ObservedClients(members={"g": ("b",)})
        effect = inject(run, MORE)
        assert effect.acted and effect.unmet_goals == {} and effect.details == {"worker": "s-2.0"}
        assert effect.describe("was scaled") == "stage s was scaled"
        assert effect.proof[0] == "s-2.0 joined: g had 2 members, with b"
        assert effect.proof[1].endswith(
            "ended with status 3; its group g went on without it (b), with 1 members"
        )
        assert member.alive and not run.processes.all_processes[1].alive
        assert journal_names(run) == ["s-1.0", "s-2.0"]


def test_an_instance_leaves_and_joins_at_the_heal(tmp_path: Path) -> None:
    with instance_in_group(tmp_path, "ab", "ab", "b", "b", "bc") as (run, member):
        with NEMESES["scale-instances"].inject(run.context, LESS) as effect:
            run.processes.replace_dead()
            assert journal_names(run) == ["s-1.0"] and not member.alive
        assert effect.acted and effect.unmet_goals == {}
        assert effect.proof[-1] == "s-1.1 joined: g had 2 members, with c"
        assert run.processes.all_processes[1].alive


def test_an_instance_that_ends_before_the_signal_is_replaced_by_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with instance_in_group(tmp_path, "ab") as (run, member):
        ask_to_leave = run.processes.ask_to_leave
        monkeypatch.setattr(
            run.processes, "ask_to_leave", lambda process: member.child.kill() and ask_to_leave(process)
        )
        with NEMESES["scale-instances"].inject(run.context, LESS) as effect:
            pass
        assert not effect.acted and effect.unmet_goals == {LEFT: "s-1.0 ended before the signal: up"}
        run.processes.replace_dead()
        assert journal_names(run) == ["s-1.0", "s-1.1"]


def test_the_additional_instance_has_the_next_number() -> None:
    faults = [NEMESES["scale-instances"].draw_fault(Random(seed), TARGETS) for seed in range(20)]
    assert {fault.target.name for fault in faults} == {"bill/bill-3", "alone/alone-2"}
    with pytest.raises(NotForThisPipeline, match="with a group"):
        NEMESES["scale-instances"].draw_fault(Random(1), replace(TARGETS, groups={}))


def test_an_instance_without_others_is_not_taken_away() -> None:
    down = aim("scale-instances@down", NEMESES)
    faults = [down.draw_fault(Random(seed), TARGETS) for seed in range(20)]
    assert {fault.target.name for fault in faults} == {"bill/bill-1", "bill/bill-2"}
    assert all(fault.parameters == {"role": "down"} for fault in faults)
    with pytest.raises(NoTarget, match="2 instances or more"):
        down.draw_fault(Random(1), replace(TARGETS, workers={"alone": ("alone-1",)}))
