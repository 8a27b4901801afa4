"""A worker is cut off from the broker that coordinates its transactional id when it stands at its step."""

from pathlib import Path

import pytest

from harness.model.vocabulary import WorkerStep
from harness.network import Cut
from harness.network.links import client_link
from harness.processes.control_line import Claims
from harness.runner.member import RunProcess
from harness.runner.nemesis import InjectedFault, PlannedFault, Target
from harness.testing.fake_cluster import FakeCluster
from nemeses import cut_txn_coordinator
from nemeses.registry import NEMESES
from tests.support.fake_run import FakeRun, fake_run


class Moves(FakeCluster):
    """A cluster whose transaction coordinator moves when the test says so."""

    def moved_to(self, broker: int) -> None:
        self._leader["txn s-1"] = broker


def struck(run: FakeRun, cluster: Moves, later: int, monkeypatch: pytest.MonkeyPatch) -> InjectedFault:
    """Strike; while the worker is on its way to the step, the coordinator moves."""
    arrive = run.processes.wait_at_step

    def wait_at_step(
        member: RunProcess, step: WorkerStep, timeout_s: float, txn_end: str | None = None
    ) -> Claims:
        claims = arrive(member, step, timeout_s, txn_end)
        cluster.moved_to(later)
        return claims

    monkeypatch.setattr(run.processes, "wait_at_step", wait_at_step)
    run.processes.await_ready([run.processes.start_worker("s", "s-1")])
    injection = PlannedFault("cut-txn-coordinator", Target("txn-coordinator", "s-1"), 0.0, 0.05)
    with NEMESES["cut-txn-coordinator"].inject(run.context, injection) as effect:
        pass
    return effect


def test_a_coordinator_that_moves_while_the_worker_is_awaited_is_cut_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Moves()
    with fake_run(tmp_path, cluster=cluster) as run:
        effect = struck(run, cluster, 3, monkeypatch)
    assert cluster.network.imposed == [(client_link("w0", 3), Cut())]
    assert effect.acted and effect.details["broker"] == "3"
    assert effect.target == "worker s-1.0 from its transaction coordinator, broker 3"
    assert (
        effect.describe("was cut off")
        == "worker s-1.0 was cut off from its transaction coordinator, broker 3"
    )
    assert (
        "s-1 was coordinated by broker 1 when the fault began, and by broker 3 when s-1.0 waited there"
        in effect.proof
    )


def test_where_nobody_coordinates_any_more_nothing_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_txn_coordinator, "COORDINATOR_TIMEOUT_S", 0.3)
    cluster = Moves()
    with fake_run(tmp_path, cluster=cluster) as run:
        effect = struck(run, cluster, -1, monkeypatch)
    assert cluster.network.imposed == [] and not effect.acted and effect.injected_ns is None
    assert effect.unmet_goals == {
        "txn-coordinator": "waited 0.3 s for a broker to coordinate s-1; last seen: nothing"
    }
