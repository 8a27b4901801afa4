"""A coordinator that is killed in a state of a transaction: only where it says that the transaction is in it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster import TransactionView
from harness.model.pipeline import StageSpec
from harness.network import Cut
from harness.network.links import peer_link
from harness.runner.nemesis import InjectedFault, PlannedFault, Target
from harness.testing.fake_cluster import FakeCluster
from nemeses.aiming import around_markers, failover, in_transaction, transaction_states
from nemeses.registry import NEMESES
from tests.support.fake_run import IDLE, PIPELINE, FakeRun, Script, fake_run

OUT = (("out", 0),)


def view(state: str, places: tuple[tuple[str, int], ...] = OUT) -> TransactionView:
    return TransactionView(state, 7, 0, places)


ONGOING, DONE = view("Ongoing"), view("CompleteCommit", ())
PREPARED = view("PrepareCommit")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_transaction, "STEP_TIMEOUT_S", 0.5)
    monkeypatch.setattr(around_markers, "STEP_TIMEOUT_S", 0.5)
    monkeypatch.setattr(failover, "MOVE_TIMEOUT_S", 0.5)
    for file in (transaction_states, around_markers):
        monkeypatch.setattr(file, "STATE_TIMEOUT_S", 0.5)


def cluster(*told: TransactionView, leader: int = 2) -> FakeCluster:
    """Broker 1 coordinates the id, and `leader` leads what the transaction writes."""
    made = FakeCluster(transactions={"s-1": list(told)})
    made._leader["out/0"] = leader
    return made


def struck(
    run: FakeRun,
    state: str,
    fault: str = "kill-txn-coordinator",
    stages: Sequence[StageSpec] = PIPELINE.stages,
) -> InjectedFault:
    run.processes.await_ready([run.processes.start_worker("s", "s-1")])
    target = Target("leader", "out/0") if fault == "kill-broker" else Target("txn-coordinator", "s-1")
    injection = PlannedFault(fault, target, 0.0, 0.05, {"state": state})
    with NEMESES[fault].inject(replace(run.context, stages=stages), injection) as effect:
        pass
    assert all(broker.running for broker in run.cluster.brokers)
    assert run.cluster.network.affected == []
    return effect


def test_a_coordinator_dies_with_a_transaction_that_it_has_prepared(tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=cluster(ONGOING, PREPARED, PREPARED, DONE)) as run:
        effect = struck(run, "prepare-commit")
        assert effect.acted and effect.unmet_goals == {}
        assert run.cluster.network.imposed == [(peer_link(1, 2, "int"), Cut())]
        assert effect.target == "broker 1, transaction coordinator of s-1, in PrepareCommit"
        assert "s-1 was in PrepareCommit, with no marker yet in out/0" in effect.proof[0]
        assert effect.proof[-1].endswith("s-1 went on to CompleteCommit")


def test_a_transaction_that_stays_prepared_is_left_to_the_verdict(tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=cluster(ONGOING, PREPARED)) as run:
        effect = struck(run, "prepare-commit")
        assert not effect.acted and "out of PrepareCommit" in effect.unmet_goals["failover"]


def test_of_an_open_transaction_no_link_is_cut(tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=cluster(ONGOING, DONE)) as run:
        assert struck(run, "ongoing").acted
        assert run.cluster.network.imposed == []


@pytest.mark.parametrize(
    ("told", "leader"),
    [
        ((ONGOING,), 1),  # all that it has written is led by its coordinator: nothing could hold the marker
        ((ONGOING, DONE), 2),  # it was complete before anybody saw it prepared
        ((ONGOING, view("PrepareCommit", ())), 2),  # every marker is written
        ((DONE,), 2),  # nothing is open
    ],
)
def test_a_state_that_was_not_seen_was_not_struck(
    told: tuple[TransactionView, ...], leader: int, tmp_path: Path
) -> None:
    with fake_run(tmp_path, cluster=cluster(*told, leader=leader)) as run:
        effect = struck(run, "prepare-commit")
        assert not effect.acted and list(effect.unmet_goals) == ["transaction-state"]
        assert run.cluster.txn_coordinator("s-1") == 1  # it is alive


def test_a_worker_whose_markers_could_not_be_held_back_is_passed_over(tmp_path: Path) -> None:
    """Broker 1 coordinates both ids, and leads all that the first worker writes."""
    elsewhere = (("in", 0),)
    made = FakeCluster(
        transactions={
            "s-1": [ONGOING],
            "s-2": [view("Ongoing", elsewhere), view("PrepareCommit", elsewhere), DONE],
        }
    )
    made._leader |= {"out/0": 1, "in/0": 3}
    two = replace(PIPELINE.stages[0], transactional_ids={"s-1": "s-1", "s-2": "s-2"})
    with fake_run(tmp_path, cluster=made) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-2")])
        effect = struck(run, "prepare-commit", stages=(two,))
        assert effect.acted and effect.unmet_goals == {}
        assert effect.details["transactional_id"] == "s-2"
        assert made.network.imposed == [(peer_link(1, 3, "int"), Cut())]


def test_a_worker_that_ends_no_transaction_leaves_nothing_to_strike(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(IDLE), cluster(ONGOING)) as run:
        effect = struck(run, "prepare-abort")
        assert not effect.acted and list(effect.unmet_goals) == ["worker-at-step"]


@pytest.mark.parametrize(
    ("state", "told", "words"),
    [
        ("before-markers", (ONGOING,), "s-1 was Ongoing, with records in out/0 and no marker yet"),
        ("after-markers", (ONGOING, PREPARED, DONE), "s-1 was CompleteCommit: out/0 had its marker"),
    ],
)
def test_a_leader_dies_on_either_side_of_the_marker(
    state: str, told: tuple[TransactionView, ...], words: str, tmp_path: Path
) -> None:
    with fake_run(tmp_path, cluster=cluster(*told)) as run:
        effect = struck(run, state, "kill-broker")
        assert effect.acted and effect.proof[0] == words
        assert effect.short_target == "broker 2" and effect.proof[-1] == "broker 1 leads out/0 now"


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("after-markers", (ONGOING, PREPARED)),  # it is never complete
        ("before-markers", (view("Ongoing", (("__consumer_offsets", 0),)),)),  # it has no output
    ],
)
def test_a_leader_lives_where_the_state_was_not_seen(
    state: str, told: tuple[TransactionView, ...], tmp_path: Path
) -> None:
    with fake_run(tmp_path, cluster=cluster(*told)) as run:
        effect = struck(run, state, "kill-broker")
        assert not effect.acted and list(effect.unmet_goals) == ["transaction-state"]
