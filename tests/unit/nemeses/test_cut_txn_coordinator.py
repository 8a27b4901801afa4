"""A worker at its step is cut off from the broker that coordinates its transactional id at that time."""

from pathlib import Path

import pytest

from harness.model.vocabulary import WorkerStep
from harness.network import Cut, client_link
from harness.processes.messages import Claims
from harness.runner.nemesis import InjectedFault, PlannedFault, Target
from harness.runner.run_process import RunProcess
from harness.testing.fake_cluster import FakeCluster
from nemeses.registry import NEMESES
from tests.support.fake_run import FakeRun, fake_run

pytestmark = pytest.mark.processes


class MovingCoordinator(FakeCluster):
    """A cluster whose transaction coordinator can move."""

    def move_to(self, broker: int) -> None:
        self._leader["txn s-1"] = broker


def inject(
    run: FakeRun, cluster: MovingCoordinator, later: int, monkeypatch: pytest.MonkeyPatch
) -> InjectedFault:
    """Inject the fault. Before the worker reaches the step, the coordinator moves to the broker `later`."""
    reach_step = run.processes.hold_at_step

    def hold_at_step(
        member: RunProcess, step: WorkerStep, timeout_s: float, intended_end: str | None = None
    ) -> Claims:
        claims = reach_step(member, step, timeout_s, intended_end)
        cluster.move_to(later)
        return claims

    monkeypatch.setattr(run.processes, "hold_at_step", hold_at_step)
    run.processes.await_ready([run.processes.start_worker("s", "s-1")])
    planned = PlannedFault("cut-txn-coordinator", Target("txn-coordinator", "s-1"), 0.0, 0.05)
    with NEMESES["cut-txn-coordinator"].inject(run.context, planned) as effect:
        pass
    return effect


def test_the_cut_follows_a_coordinator_that_moves_before_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = MovingCoordinator()
    with fake_run(tmp_path, cluster=cluster) as run:
        effect = inject(run, cluster, 3, monkeypatch)
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


def test_nothing_is_cut_if_no_broker_coordinates_the_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = MovingCoordinator()
    with fake_run(tmp_path, cluster=cluster) as run:
        effect = inject(run, cluster, -1, monkeypatch)
    assert cluster.network.imposed == [] and not effect.acted and effect.injected_ns is None
    assert effect.unmet_goals == {
        "txn-coordinator": "waited 0.1 s for a broker to coordinate s-1; last seen: nothing"
    }
