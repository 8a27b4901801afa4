"""The instances of a custom pipeline that a fault draws, and the resources that it occupies."""

from dataclasses import replace
from random import Random

import pytest

from harness.runner.nemesis import (
    FaultTargets,
    NoTarget,
    NotForThisPipeline,
    PlannedFault,
    Resource,
    Target,
)
from nemeses.effects import instance_states
from nemeses.registry import NEMESES
from tests.support.instances import FAULTS

WORKLOAD = FaultTargets(
    brokers=(1, 2, 3),
    topic_partitions=(("in", 0), ("out", 0)),
    workers={"shop": ("shop-1",)},
    steps={"shop": ("after-send",)},
    zombie_steps={},
    groups={"shop": "g"},
    transactional_ids={"shop": ("shop-1",)},
    endpoints=("w0",),
)
MIXED = replace(
    WORKLOAD,
    workers={"shop": ("shop-1",), "bill": ("bill-1", "bill-2"), "count": ("count-1",), "log": ("log-1",)},
    groups={"shop": "g", "bill": "g1", "count": "g2"},
    transactional_ids={"shop": ("shop-1",), "bill": ("b-1", "b-2"), "count": (), "log": ()},
)


def drawn(fault: str, targets: FaultTargets, at: str | None = None) -> set[str]:
    """The names of the targets that the fault draws with 60 seeds."""
    nemesis = replace(NEMESES[fault], at=at)
    return {nemesis.draw_fault(Random(seed), targets).target.name for seed in range(60)}


@pytest.mark.parametrize("fault", FAULTS)
def test_workers_that_report_their_steps_are_not_drawn(fault: str) -> None:
    with pytest.raises(NotForThisPipeline, match="a custom pipeline"):
        drawn(fault, WORKLOAD)
    grouped = {"bill/bill-1", "bill/bill-2", "count/count-1"}
    assert drawn(fault, MIXED) == grouped | ({"log/log-1"} if fault == "kill-instance" else set())


def test_an_instance_without_a_group_is_not_paused() -> None:
    with pytest.raises(NotForThisPipeline, match="with a group"):
        drawn("pause-instance", replace(MIXED, groups={}))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_state_is_drawn_only_for_instances_with_a_transactional_id(fault: str) -> None:
    assert drawn(fault, MIXED, "ongoing") == {"bill/bill-1", "bill/bill-2"}
    two_stages = replace(MIXED, transactional_ids={**MIXED.transactional_ids, "count": ("c-1",)})
    assert drawn(fault, two_stages, "count:offsets-added") == {"count/count-1"}
    with pytest.raises(NoTarget, match="a stage log with a transactional id"):
        drawn(fault, MIXED, "log:ongoing")
    with pytest.raises(NotForThisPipeline):
        drawn(fault, WORKLOAD, "ongoing")


@pytest.mark.parametrize("fault", FAULTS)
def test_most_faults_without_a_state_wait_for_an_open_transaction(fault: str) -> None:
    observed = replace(MIXED, stages_with_unknown_ids=("count",))
    faults = [NEMESES[fault].draw_fault(Random(seed), observed) for seed in range(60)]
    preferences = {(fault.target.name.partition("/")[0], fault.parameters.get("prefers")) for fault in faults}
    assert {("bill", "ongoing"), ("bill", None), ("count", "ongoing"), ("count", None)} <= preferences
    assert ("log", "ongoing") not in preferences
    aimed = replace(NEMESES[fault], at="offsets-added").draw_fault(Random(1), MIXED)
    assert aimed.parameters == {"state": "offsets-added"}


def test_a_fault_that_holds_markers_back_takes_longer() -> None:
    for fault in FAULTS:
        states = (None, "ongoing", "bill:prepare-commit")
        durations_s = [replace(NEMESES[fault], at=state).duration_s for state in states]
        assert durations_s[0] == durations_s[1] == durations_s[2] - instance_states.PREPARES_S


def test_a_fault_that_holds_markers_back_occupies_the_brokers() -> None:
    for fault in FAULTS:
        resources = [
            NEMESES[fault].occupies(PlannedFault(fault, Target("worker", "s/s-1"), 0.0, 1.0, parameters))
            for parameters in ({"state": "ongoing"}, {"state": "prepare-commit"})
        ]
        assert resources == [{Resource.WORKERS}, {Resource.WORKERS, Resource.BROKERS}]


def test_a_state_is_drawn_for_a_stage_whose_ids_can_be_observed() -> None:
    for fault in FAULTS:
        with pytest.raises(NoTarget, match="with a transactional id"):
            drawn(fault, replace(MIXED, transactional_ids={}), "ongoing")
        observed = replace(MIXED, transactional_ids={}, stages_with_unknown_ids=("count",))
        assert drawn(fault, observed, "ongoing") == {"count/count-1"}
        assert drawn(fault, observed, "count:ongoing") == {"count/count-1"}
