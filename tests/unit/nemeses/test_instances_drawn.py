"""Which instances of a user's program a fault draws, and what it takes of the run."""

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
from nemeses.effects import stopped
from nemeses.registry import NEMESES
from tests.support.fake_run import USERS
from tests.support.instances import FAULTS

OURS = FaultTargets(
    brokers=(1, 2, 3),
    topic_partitions=(("in", 0), ("out", 0)),
    workers={"ours": ("ours-1",)},
    steps={"ours": ("after-send",)},
    zombie_steps={},
    groups={"ours": "g"},
    transactional_ids={"ours": ("ours-1",)},
    endpoints=("w0",),
)
MIXED = replace(
    OURS,
    workers={"ours": ("ours-1",), "bill": ("bill-1", "bill-2"), "count": ("count-1",), "log": ("log-1",)},
    groups={"ours": "g", "bill": "g1", "count": "g2"},
    transactional_ids={"ours": ("ours-1",), "bill": ("b-1", "b-2"), "count": (), "log": ()},
)
NAMELESS = replace(USERS, stages=(replace(USERS.stages[0], transactional_ids={}),))


def drawn(fault: str, targets: FaultTargets, at: str | None = None) -> set[str]:
    """All that it would draw."""
    nemesis = replace(NEMESES[fault], at=at)
    return {nemesis.draw_fault(Random(seed), targets).target.name for seed in range(60)}


@pytest.mark.parametrize("fault", FAULTS)
def test_workers_that_tell_of_their_steps_are_none_of_theirs(fault: str) -> None:
    with pytest.raises(NotForThisPipeline, match="a custom pipeline"):
        drawn(fault, OURS)
    grouped = {"bill/bill-1", "bill/bill-2", "count/count-1"}
    assert drawn(fault, MIXED) == grouped | ({"log/log-1"} if fault == "kill-instance" else set())


def test_who_has_no_group_is_not_paused() -> None:
    with pytest.raises(NotForThisPipeline, match="with a group"):
        drawn("pause-instance", replace(MIXED, groups={}))


@pytest.mark.parametrize("fault", FAULTS)
def test_in_a_state_of_a_transaction_those_are_struck_that_have_an_id(fault: str) -> None:
    assert drawn(fault, MIXED, "ongoing") == {"bill/bill-1", "bill/bill-2"}
    two = replace(MIXED, transactional_ids={**MIXED.transactional_ids, "count": ("c-1",)})
    assert drawn(fault, two, "count:offsets-added") == {"count/count-1"}
    with pytest.raises(NoTarget, match="a stage log with a transactional id"):
        drawn(fault, MIXED, "log:ongoing")
    with pytest.raises(NotForThisPipeline):
        drawn(fault, OURS, "ongoing")


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_is_not_aimed_mostly_waits_for_an_open_transaction_where_there_are_some(fault: str) -> None:
    found = replace(MIXED, stages_with_unknown_ids=("count",))
    drawn = [NEMESES[fault].draw_fault(Random(seed), found) for seed in range(60)]
    told = {(one.target.name.partition("/")[0], one.parameters.get("prefers")) for one in drawn}
    assert {("bill", "ongoing"), ("bill", None), ("count", "ongoing"), ("count", None)} <= told
    assert ("log", "ongoing") not in told
    aimed = replace(NEMESES[fault], at="offsets-added").draw_fault(Random(1), MIXED)
    assert aimed.parameters == {"state": "offsets-added"}


def test_what_holds_markers_back_takes_longer() -> None:
    for fault in FAULTS:
        rooms = [replace(NEMESES[fault], at=at).duration_s for at in (None, "ongoing", "bill:prepare-commit")]
        assert rooms[0] == rooms[1] == rooms[2] - stopped.PREPARES_S


def test_what_holds_markers_back_leaves_the_brokers_to_nobody_else() -> None:
    for fault in FAULTS:
        at = [
            NEMESES[fault].occupies(PlannedFault(fault, Target("worker", "s/s-1"), 0.0, 1.0, parameters))
            for parameters in ({"state": "ongoing"}, {"state": "prepare-commit"})
        ]
        assert at == [{Resource.WORKERS}, {Resource.WORKERS, Resource.BROKERS}]


def test_a_stage_whose_ids_nobody_named_is_aimed_at_where_they_can_be_found_out() -> None:
    for fault in FAULTS:
        with pytest.raises(NoTarget, match="with a transactional id"):
            drawn(fault, replace(MIXED, transactional_ids={}), "ongoing")
        stages_with_unknown_ids = replace(MIXED, transactional_ids={}, stages_with_unknown_ids=("count",))
        assert drawn(fault, stages_with_unknown_ids, "ongoing") == {"count/count-1"}
        assert drawn(fault, stages_with_unknown_ids, "count:ongoing") == {"count/count-1"}
