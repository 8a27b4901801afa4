"""A coordinator is killed in a state of a transaction only if it reports that the transaction is in this state."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster import TransactionView
from harness.model.pipeline import StageSpec
from harness.network import Cut, peer_link
from harness.runner.nemesis import InjectedFault, PlannedFault, Target
from harness.testing.fake_cluster import FakeCluster
from nemeses.registry import NEMESES
from tests.support.fake_run import IDLE, PIPELINE, FakeRun, Script, fake_run

pytestmark = pytest.mark.processes

OUT = (("out", 0),)


def view(state: str, partitions: tuple[tuple[str, int], ...] = OUT) -> TransactionView:
    return TransactionView(state, 7, 0, partitions)


ONGOING, DONE = view("Ongoing"), view("CompleteCommit", ())
PREPARED = view("PrepareCommit")


def cluster(*views: TransactionView, leader: int = 2) -> FakeCluster:
    """A cluster on which broker 1 coordinates the id, and `leader` leads the partition that the transaction writes."""
    fake = FakeCluster(transactions={"s-1": list(views)})
    fake._leader["out/0"] = leader
    return fake


def inject(
    run: FakeRun,
    state: str,
    fault: str = "kill-txn-coordinator",
    stages: Sequence[StageSpec] = PIPELINE.stages,
) -> InjectedFault:
    run.processes.await_ready([run.processes.start_worker("s", "s-1")])
    target = Target("leader", "out/0") if fault == "kill-broker" else Target("txn-coordinator", "s-1")
    planned = PlannedFault(fault, target, 0.0, 0.05, {"state": state})
    with NEMESES[fault].inject(replace(run.context, stages=stages), planned) as effect:
        pass
    assert all(broker.running for broker in run.cluster.brokers)
    assert run.cluster.network.affected == []
    return effect


def test_a_coordinator_is_killed_while_its_transaction_is_prepared(tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=cluster(ONGOING, PREPARED, PREPARED, DONE)) as run:
        effect = inject(run, "prepare-commit")
        assert effect.acted and effect.unmet_goals == {}
        assert run.cluster.network.imposed == [(peer_link(1, 2, "int"), Cut())]
        assert effect.target == "broker 1, transaction coordinator of s-1, in PrepareCommit"
        assert "s-1 was in PrepareCommit, with no marker yet in out/0" in effect.proof[0]
        assert effect.proof[-1].endswith("s-1 went on to CompleteCommit")


def test_a_transaction_that_stays_prepared_is_an_unmet_goal(tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=cluster(ONGOING, PREPARED)) as run:
        effect = inject(run, "prepare-commit")
        assert not effect.acted and "out of PrepareCommit" in effect.unmet_goals["failover"]


def test_no_link_is_cut_for_an_open_transaction(tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=cluster(ONGOING, DONE)) as run:
        assert inject(run, "ongoing").acted
        assert run.cluster.network.imposed == []


@pytest.mark.parametrize(
    ("views", "leader"),
    [
        (
            (ONGOING,),
            1,
        ),  # its coordinator leads every partition that it has written, so no cut could hold the marker back
        ((ONGOING, DONE), 2),  # it was complete before it was seen prepared
        ((ONGOING, view("PrepareCommit", ())), 2),  # every marker is written
        ((DONE,), 2),  # no transaction is open
    ],
)
def test_a_coordinator_is_not_killed_if_the_state_was_not_seen(
    views: tuple[TransactionView, ...], leader: int, tmp_path: Path
) -> None:
    with fake_run(tmp_path, cluster=cluster(*views, leader=leader)) as run:
        effect = inject(run, "prepare-commit")
        assert not effect.acted and list(effect.unmet_goals) == ["transaction-state"]
        assert run.cluster.txn_coordinator("s-1") == 1  # it is alive


def test_a_worker_whose_markers_cannot_be_held_back_is_skipped(tmp_path: Path) -> None:
    """Broker 1 coordinates both ids, and leads the partition that the first worker writes."""
    other_partition = (("in", 0),)
    fake = FakeCluster(
        transactions={
            "s-1": [ONGOING],
            "s-2": [view("Ongoing", other_partition), view("PrepareCommit", other_partition), DONE],
        }
    )
    fake._leader |= {"out/0": 1, "in/0": 3}
    stage = replace(PIPELINE.stages[0], transactional_ids={"s-1": "s-1", "s-2": "s-2"})
    with fake_run(tmp_path, cluster=fake) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-2")])
        effect = inject(run, "prepare-commit", stages=(stage,))
        assert effect.acted and effect.unmet_goals == {}
        assert effect.details["transactional_id"] == "s-2"
        assert fake.network.imposed == [(peer_link(1, 3, "int"), Cut())]


def test_the_fault_does_not_act_if_no_worker_ends_a_transaction(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(IDLE), cluster(ONGOING)) as run:
        effect = inject(run, "prepare-abort")
        assert not effect.acted and list(effect.unmet_goals) == ["worker-at-step"]


@pytest.mark.parametrize(
    ("state", "views", "proof"),
    [
        ("before-markers", (ONGOING,), "s-1 was Ongoing, with records in out/0 and no marker yet"),
        ("after-markers", (ONGOING, PREPARED, DONE), "s-1 was CompleteCommit: out/0 had its marker"),
    ],
)
def test_a_leader_is_killed_before_or_after_the_marker(
    state: str, views: tuple[TransactionView, ...], proof: str, tmp_path: Path
) -> None:
    with fake_run(tmp_path, cluster=cluster(*views)) as run:
        effect = inject(run, state, "kill-broker")
        assert effect.acted and effect.proof[0] == proof
        assert effect.short_target == "broker 2" and effect.proof[-1] == "broker 1 leads out/0 now"


@pytest.mark.parametrize(
    ("state", "views"),
    [
        ("after-markers", (ONGOING, PREPARED)),  # it is never complete
        ("before-markers", (view("Ongoing", (("__consumer_offsets", 0),)),)),  # it has no output
    ],
)
def test_a_leader_is_not_killed_if_the_state_was_not_seen(
    state: str, views: tuple[TransactionView, ...], tmp_path: Path
) -> None:
    with fake_run(tmp_path, cluster=cluster(*views)) as run:
        effect = inject(run, state, "kill-broker")
        assert not effect.acted and list(effect.unmet_goals) == ["transaction-state"]
