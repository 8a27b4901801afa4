"""Instances and workers become zombies without a replacement: nobody takes their transactional ids."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from harness.cluster import TransactionView
from harness.model.pipeline import TopicPartition
from harness.processes.specs import ProgramRules
from harness.protocol.observed_clients import ObservedClients
from harness.runner.nemesis import FaultTargets, InjectedFault, NoTarget, NotForThisPipeline
from harness.testing.fake_network import FakeNetwork
from nemeses.effects.member import ZOMBIE
from nemeses.registry import NEMESES
from tests.support.fake_run import ABORTED_ZOMBIE, FakeRun, Script, ShellProgram, fake_run
from tests.support.instances import (
    COMPLETED,
    ONGOING,
    ONGOING_WITH_OFFSETS,
    WritingCluster,
    inject,
    journal_names,
    run_instance,
)
from tests.unit.nemeses.test_faults import AIMED

pytestmark = pytest.mark.processes

INSTANCE, WORKER = "pause-instance-unreplaced", "pause-worker-unreplaced"
ABORTED = TransactionView("CompleteAbort", 7, 1, ())


class ReadingCluster(WritingCluster):
    """A cluster with 20 inputs, ten of which the group has committed. It commits the others if `others_commit`."""

    def __init__(self, *looks: TransactionView, others_commit: bool = True) -> None:
        super().__init__(
            groups={"g": [("a", "b")] * 4 + [("b",)]},
            network=FakeNetwork(clients={"w0": ObservedClients(members={"g": ("a",)})}),
            transactions={"s-1": list(looks)},
            offsets={"g": {("in", 0): 10}},
        )
        if others_commit:
            self.next_offsets["g"] = {("in", 0): 20}

    def log_offsets(self, topics: Sequence[str]) -> Mapping[TopicPartition, tuple[int, int, int]]:
        return super().log_offsets(topics) if "out" in topics else {("in", 0): (0, 20, 24)}


def pause(run: FakeRun) -> InjectedFault:
    return inject(run, INSTANCE, prefers="before-offsets")


def test_an_instance_is_paused_until_others_have_committed_its_inputs(tmp_path: Path) -> None:
    with run_instance(tmp_path, ReadingCluster(ONGOING)) as (run, member):
        effect = pause(run)
        assert effect.acted and effect.unmet_goals == {}
        stopped, zombie = effect.proof
        assert stopped == "s-1.0 was stopped while s-1 was Ongoing with out"
        assert zombie == (
            "its group g went on without it (a), with 1 members; the others had committed in/0 from 10 to 20; s-1 was "
            "Ongoing before it was resumed; then s-1.0 came back, sent 300 bytes of requests, and still runs after "
            "0.06 s"
        )
        assert member.child.running and journal_names(run) == ["s-1.0"]


def test_an_instance_is_paused_before_its_offsets_are_added(tmp_path: Path) -> None:
    looks = [COMPLETED, ONGOING_WITH_OFFSETS, ONGOING, ONGOING_WITH_OFFSETS, ONGOING, ONGOING, ABORTED]
    with run_instance(tmp_path, ReadingCluster(*looks), time_scale=0.05) as (run, _):
        effect = pause(run)
        assert effect.acted and effect.proof[0] == "s-1.0 was stopped while s-1 was Ongoing with out"
        assert "s-1 was CompleteAbort before it was resumed" in effect.proof[-1]


def test_an_instance_is_no_zombie_if_the_others_do_not_commit_its_inputs(tmp_path: Path) -> None:
    cluster = ReadingCluster(ONGOING, others_commit=False)
    with run_instance(tmp_path, cluster, time_scale=0.001) as (run, member):
        effect = pause(run)
        assert not effect.acted and member.child.running and journal_names(run) == ["s-1.0"]
        assert effect.unmet_goals == {
            ZOMBIE: "its group g went on without it (a), with 1 members; but the others did not process its inputs: "
            "waited 0.075 s for g to commit the inputs of s-1.0; last seen: in/0 from 10 to 10"
        }


@pytest.mark.parametrize("looks", [[COMPLETED], []])
def test_an_instance_without_an_open_transaction_is_paused_too(
    looks: list[TransactionView], tmp_path: Path
) -> None:
    with run_instance(tmp_path, ReadingCluster(*looks)) as (run, _):
        effect = pause(run)
        assert effect.acted and "before it was resumed" not in effect.proof[-1]


def test_an_instance_that_ends_after_it_was_resumed_is_replaced(tmp_path: Path) -> None:
    fenced = ShellProgram(
        "trap 'echo fenced; exit 1' CONT; echo up; while :; do sleep 0.02; done", ProgramRules("up")
    )
    with run_instance(tmp_path, ReadingCluster(ONGOING), fenced, time_scale=0.1) as (run, _):
        with NEMESES[INSTANCE].inject(run.context, AIMED[INSTANCE]) as effect:
            run.processes.replace_dead()
            assert journal_names(run) == ["s-1.0"]
        assert effect.acted and effect.proof[-1].endswith("then s-1.0 came back and ended: fenced")
        run.processes.replace_dead()
        assert journal_names(run) == ["s-1.0", "s-1.1"]


TARGETS = FaultTargets(
    brokers=(1, 2, 3),
    topic_partitions=(("in", 0), ("out", 0)),
    workers={"bill": ("bill-1", "bill-2"), "alone": ("alone-1",)},
    steps={},
    zombie_steps={},
    groups={"bill": "g", "alone": "g2"},
    transactional_ids={"bill": ("b-1", "b-2"), "alone": ("a-1",)},
    endpoints=("w0",),
)


def test_only_an_instance_with_others_is_drawn_and_the_fault_prefers_to_be_before_its_offsets() -> None:
    faults = [NEMESES[INSTANCE].draw_fault(Random(seed), TARGETS) for seed in range(30)]
    assert {fault.target.name for fault in faults} == {"bill/bill-1", "bill/bill-2"}
    assert {fault.parameters.get("prefers") for fault in faults} == {"before-offsets"}
    aimed = replace(NEMESES[INSTANCE], at="offsets-added").draw_fault(Random(1), TARGETS)
    assert aimed.parameters == {"state": "offsets-added"}


def test_an_instance_without_others_is_refused() -> None:
    alone = replace(TARGETS, workers={"alone": ("alone-1",)})
    with pytest.raises(NoTarget, match="a stage with 2 instances or more, so that others take over"):
        NEMESES[INSTANCE].draw_fault(Random(1), alone)
    for others in (
        replace(TARGETS, groups={}),
        replace(TARGETS, steps=dict.fromkeys(TARGETS.workers, ("s",))),
    ):
        with pytest.raises(NotForThisPipeline):
            NEMESES[INSTANCE].draw_fault(Random(1), others)


@pytest.mark.parametrize(
    ("workers", "groups", "possible"),
    [
        (("w-1", "w-2"), {"s": "g"}, True),
        (("w-1",), {"s": "g"}, False),
        (("w-1",), {}, True),  # the transaction time-out ends its transaction
    ],
)
def test_a_worker_in_a_group_needs_a_second_worker(
    workers: tuple[str, ...], groups: dict[str, str], possible: bool
) -> None:
    steps = {"s": ("after-send",)}
    targets = replace(TARGETS, workers={"s": workers}, groups=groups, steps=steps, zombie_steps=steps)
    if possible:
        assert NEMESES[WORKER].draw_fault(Random(1), targets).parameters == {"step": "after-send"}
    else:
        with pytest.raises(NoTarget, match="another worker of its stage can take over"):
            NEMESES[WORKER].draw_fault(Random(1), targets)


def leave_group(run: FakeRun) -> None:
    """Let the worker of the run have no group."""
    (worker,) = run.processes.all_processes
    assert worker.worker_spec is not None
    worker.worker_spec = structs.replace(worker.worker_spec, group=None)


@pytest.mark.parametrize(
    ("prepare", "proof"),
    [
        (lambda run: None, "others had committed in/0 up to 20"),
        (leave_group, "the coordinator had aborted its transaction of s-1 after the time-out"),
    ],
)
def test_a_worker_is_paused_until_others_have_taken_over_and_is_not_replaced(
    prepare: Callable[[FakeRun], None], proof: str, tmp_path: Path
) -> None:
    cluster = ReadingCluster(ONGOING, ONGOING, ABORTED)
    cluster.offsets["g"] = {("in", 0): 0}
    with fake_run(tmp_path, Script(ABORTED_ZOMBIE), cluster) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        prepare(run)
        with NEMESES[WORKER].inject(run.context, AIMED[WORKER]) as effect:
            run.processes.replace_dead()
        assert effect.acted and effect.unmet_goals == {}
        assert f"{proof} after " in effect.proof[0]
        assert effect.proof[1] == "s-1.0 came back and continued its transaction without being fenced"
        assert journal_names(run) == ["s-1.0"] and run.processes.all_processes[0].alive


def test_without_a_group_it_waits_for_a_transaction_that_the_coordinator_knows(tmp_path: Path) -> None:
    """A transaction that only reads is not begun, so no time-out ends it."""
    cluster = ReadingCluster(ABORTED, ONGOING, ONGOING, ABORTED)
    with fake_run(tmp_path, Script(ABORTED_ZOMBIE), cluster) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        leave_group(run)
        with NEMESES[WORKER].inject(run.context, AIMED[WORKER]) as effect:
            pass
        assert effect.acted and "had aborted its transaction of s-1" in effect.proof[0]


@pytest.mark.parametrize("looks", [[ONGOING], [ABORTED], []])
def test_a_worker_whose_transaction_does_not_end_was_no_zombie(
    looks: list[TransactionView], tmp_path: Path
) -> None:
    with fake_run(tmp_path, Script(ABORTED_ZOMBIE), ReadingCluster(*looks), time_scale=0.002) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        leave_group(run)
        with NEMESES[WORKER].inject(run.context, AIMED[WORKER]) as effect:
            pass
        assert not effect.acted and "no other worker committed its inputs" in effect.unmet_goals[ZOMBIE]
