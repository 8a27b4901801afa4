"""Faults that change clocks: how they are drawn, when they act, and that each clock is right again."""

import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from fencepost.registry import aim
from harness.common.errors import FaultFailed, UsageError
from harness.model.pipeline import TopicSpec
from harness.model.vocabulary import Premise
from harness.runner.nemesis import PlannedFault, Target
from harness.testing.fake_cluster import FakeBroker, FakeCluster, FakePreload, fault_context
from nemeses.clocks import in_words
from nemeses.registry import NEMESES
from tests.support.broker_data import BATCHES, write_partition
from tests.support.drawn_schedule import draw
from tests.support.fake_run import fake_run
from tests.unit.harness.test_schedule import TARGETS

BROKER_CLOCKS = {
    "jump-broker-clock": {"ahead_s": 3600.0},
    "drift-broker-clock": {"rate": 1.1},
    "stop-broker-clock": {},
}


def started(**fields: bool) -> FakeCluster:
    cluster = FakeCluster(**fields)
    cluster.create_topics([TopicSpec("in", 1)], 1.0)
    return cluster


@pytest.mark.parametrize("fault", BROKER_CLOCKS)
def test_the_clock_of_a_broker_is_changed_and_then_right_again(fault: str) -> None:
    cluster = started()
    planned = PlannedFault(fault, Target("leader", "in/0"), 0.0, 0.05, BROKER_CLOCKS[fault])
    with NEMESES[fault].inject(fault_context(cluster), planned) as effect:
        ahead_s = [broker.preload.ahead_s() for broker in cluster.brokers]
        assert ahead_s[0] != 0.0 and ahead_s[1:] == [0.0, 0.0]
        assert all(broker.running for broker in cluster.brokers)
    assert effect.acted and effect.target == "broker 1, leader of in/0"
    assert (
        "broker 1 wrote a record with a time" in effect.proof[0] and "in every ISR after" in effect.proof[1]
    )
    assert [broker.preload.ahead_s() for broker in cluster.brokers] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("fault", "parameters", "restarts"),
    [
        ("jump-broker-clock", {"ahead_s": 3600.0}, 1),
        ("jump-broker-clock", {"ahead_s": -3600.0}, 0),
        ("drift-broker-clock", {"rate": 1e9}, 1),  # so fast that it is far ahead after a moment
        ("drift-broker-clock", {"rate": 1.1}, 0),
    ],
)
def test_a_broker_whose_clock_was_far_ahead_is_restarted(
    fault: str, parameters: Mapping[str, float], restarts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[float] = []
    monkeypatch.setattr(
        FakeBroker, "kill", lambda broker: killed.append(broker.preload.ahead_s()) or "killed"
    )
    planned = PlannedFault(fault, Target("broker", "2"), 0.0, 0.05, parameters)
    with NEMESES[fault].inject(fault_context(started()), planned) as effect:
        assert killed == []
    assert killed == [0.0] * restarts and effect.acted


def test_the_clocks_of_several_brokers_jump_together() -> None:
    cluster = started()
    planned = PlannedFault("jump-broker-clock", Target("majority", "1,3"), 0.0, 0.05, {"ahead_s": -3600.0})
    with NEMESES["jump-broker-clock"].inject(fault_context(cluster), planned) as effect:
        assert [broker.preload.ahead_s() for broker in cluster.brokers] == [-3600.0, 0.0, -3600.0]
    assert effect.acted and len(effect.proof) == 3


@pytest.mark.parametrize("fault", BROKER_CLOCKS)
def test_a_broker_that_writes_the_right_time_was_not_affected(fault: str) -> None:
    planned = PlannedFault(fault, Target("leader", "in/0"), 0.0, 0.05, BROKER_CLOCKS[fault])
    context = fault_context(started(clocks_stay=True), time_scale=0.001)
    with NEMESES[fault].inject(context, planned) as effect:
        pass
    assert not effect.acted
    assert effect.unmet_goals["broker-1"].startswith(
        "waited 0.02 s for broker 1 to write a record with a time of the changed clock; last seen: 0.0 s ahead of"
    )


@pytest.mark.parametrize("fault", BROKER_CLOCKS)
def test_a_changed_clock_breaks_the_premise_of_one_clock(fault: str) -> None:
    assert NEMESES[fault].broken_premises == {Premise.ONE_CLOCK} and not NEMESES[fault].by_default


@pytest.mark.parametrize("role", [None, "txn-coordinator", "2", "all"])
def test_the_direction_of_a_jump_is_drawn_from_the_seed(role: str | None) -> None:
    name = "jump-broker-clock" + (f"@{role}" if role else "")
    drawn = set()
    for seed in range(20):
        schedule = draw([aim(name, NEMESES)], TARGETS, 40, Random(seed), chosen_by_user=True)
        again = draw([aim(name, NEMESES)], TARGETS, 40, Random(seed), chosen_by_user=True)
        assert schedule == again
        for planned in schedule.planned_faults:
            drawn.add(planned.parameters["ahead_s"])
            assert PlannedFault.from_table(planned.as_table()) == planned
    assert drawn == {3600.0, -3600.0}


def test_a_step_of_a_worker_is_refused() -> None:
    from fencepost.registry import require_known_fault

    with pytest.raises(UsageError, match="jump-broker-clock cannot be aimed at a step"):
        require_known_fault("jump-broker-clock@after-send", NEMESES)


@pytest.mark.processes
@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
@pytest.mark.parametrize("fault", ["jump-worker-clock", "jump-instance-clock"])
def test_the_clock_of_a_worker_jumps_and_a_record_in_an_output_proves_it(
    fault: str, ahead_s: float, tmp_path: Path
) -> None:
    planned = PlannedFault(fault, Target("worker", "s/s-1"), 0.0, 0.05, {"ahead_s": ahead_s})
    for actual_s in (ahead_s, 0.0, -ahead_s):
        folder = tmp_path / str(actual_s)
        folder.mkdir()
        with fake_run(folder, time_scale=0.001) as run:
            worker = run.processes.start_worker("s", "s-1")
            worker.preload = preload = FakePreload()
            run.processes.await_ready([worker])
            for broker in run.cluster.brokers:
                broker.data_dir = folder / str(broker.id)
            time_ms = int(1000 * (time.time() + actual_s))
            write_partition(run.cluster.brokers[0].data_dir, "out", time_ms)
            with NEMESES[fault].inject(run.context, planned) as effect:
                assert round(preload.ahead_s()) == ahead_s
            assert preload.ahead_s() == 0.0
            assert effect.acted is (actual_s == ahead_s)
            if effect.acted:
                assert effect.proof[0].startswith("the record out/0 @ 0 has a time 3,")
            else:
                assert (
                    "a record in an output topic with a time 3,600.0 s"
                    in effect.unmet_goals["time-of-records"]
                )


@pytest.mark.processes
def test_a_record_from_before_the_jump_proves_nothing(tmp_path: Path) -> None:
    planned = PlannedFault("jump-worker-clock", Target("worker", "s/s-1"), 0.0, 0.05, {"ahead_s": 3600.0})
    with fake_run(tmp_path, time_scale=0.001) as run:
        worker = run.processes.start_worker("s", "s-1")
        worker.preload = FakePreload()
        run.processes.await_ready([worker])
        for broker in run.cluster.brokers:
            broker.data_dir = tmp_path / str(broker.id)
        write_partition(run.cluster.brokers[0].data_dir, "out", int(1000 * (time.time() + 3600)))
        run.cluster.ends[("out", 0)] = (0, BATCHES, BATCHES)
        with NEMESES["jump-worker-clock"].inject(run.context, planned) as effect:
            pass
    assert not effect.acted and "time-of-records" in effect.unmet_goals


@pytest.mark.processes
def test_a_worker_without_the_library_is_an_error_of_the_run(tmp_path: Path) -> None:
    planned = PlannedFault("jump-worker-clock", Target("worker", "s/s-1"), 0.0, 0.05, {"ahead_s": 3600.0})
    with fake_run(tmp_path) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        with (
            pytest.raises(FaultFailed, match=r"s-1\.0 was started without the preloaded library"),
            NEMESES["jump-worker-clock"].inject(run.context, planned),
        ):
            pass


def test_a_wrong_clock_is_described_by_its_direction() -> None:
    assert in_words(-3600.04) == "3,600.0 s behind the clock of this machine"
    assert in_words(1.0) == "1.0 s ahead of the clock of this machine"
