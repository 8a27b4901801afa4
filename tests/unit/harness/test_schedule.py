"""A schedule depends only on its seed, and gives every fault enough time."""

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cluster import Ability
from harness.common.errors import UnreadableInput, UsageError
from harness.model.vocabulary import WorkerStep
from harness.network import Cut, LinkEffect
from harness.runner.churn import PlannedChange
from harness.runner.nemesis import FaultTargets, PlannedFault, Resource, Target
from harness.runner.schedule import (
    CALM_S,
    LEAD_S,
    Schedule,
    lack_leaders,
    must_wait,
    no_fault_fits_message,
    why_not_together,
)
from nemeses.registry import NEMESES
from tests.support.drawn_schedule import draw

DRAWN = {name: nemesis for name, nemesis in NEMESES.items() if name != "rule"}
"""All faults but the user's own rules, which are written and never drawn."""
TARGETS = FaultTargets(
    brokers=(1, 2, 3),
    topic_partitions=(("in", 0), ("out", 0), ("paid", 0)),
    workers={"shop": ("shop-1", "shop-2"), "payments": ("payments-1",), "own": ("own-1", "own-2")},
    steps={"shop": tuple(WorkerStep), "payments": tuple(WorkerStep), "own": ()},
    zombie_steps={"shop": ("after-send",), "payments": ("before-commit",), "own": ()},
    groups={"shop": "g1", "payments": "g2", "own": "g3"},
    transactional_ids={"shop": ("shop-1", "shop-2"), "payments": ("payments-1",)},
    writes={"shop": ("out",), "payments": ("paid",)},
    reads={"shop": ("in",), "payments": ("out",)},
    endpoints=("w0", "w1", "w2"),
    services=("postgres",),
)
SEEDS = st.integers(min_value=0, max_value=2**63 - 1)
LIMITS = st.floats(min_value=1, max_value=600)


@settings(max_examples=10)
@given(SEEDS, LIMITS)
def test_the_same_seed_gives_the_same_schedule(seed: int, limit_s: float) -> None:
    first, second = (
        draw(list(DRAWN.values()), TARGETS, limit_s, Random(seed), chosen_by_user=False) for _ in range(2)
    )
    assert first == second


@settings(max_examples=10)
@given(SEEDS, LIMITS)
def test_faults_that_need_the_same_resource_never_overlap_and_end_in_time(seed: int, limit_s: float) -> None:
    schedule = draw(list(DRAWN.values()), TARGETS, limit_s, Random(seed), chosen_by_user=False)
    for resource in Resource:
        clock_s = LEAD_S
        for planned in (
            fault for fault in schedule.planned_faults if resource in NEMESES[fault.fault].occupies(fault)
        ):
            assert planned.start_s >= clock_s - 0.02
            clock_s = planned.start_s + NEMESES[planned.fault].duration_s
            assert clock_s <= limit_s + 0.02


@pytest.mark.parametrize(("spare_s", "start_s"), [(0, LEAD_S), (2, LEAD_S + 2), (10, CALM_S)])
def test_faults_begin_later_if_there_is_time(spare_s: float, start_s: float) -> None:
    kill = NEMESES["kill-broker"]
    limit_s = LEAD_S + kill.duration_s + spare_s
    (planned,) = draw([kill], TARGETS, limit_s, Random(1), chosen_by_user=True).planned_faults
    assert planned.start_s == start_s and planned.start_s + kill.duration_s <= limit_s


@pytest.mark.parametrize(
    "names",
    [
        ("jump-worker-clock", "jump-broker-clock", "kill-worker"),
        ("kill-broker", "kill-leader-ahead", "kill-worker"),
        ("kill-broker", "kill-worker", "kill-postgres"),
    ],
)
def test_a_time_limit_that_an_error_names_suffices_for_each_seed(names: tuple[str, ...]) -> None:
    named = [NEMESES[name] for name in names]
    with pytest.raises(UsageError, match=r"--time-limit (\d+)") as refused:
        draw(named, TARGETS, 5, Random(1), chosen_by_user=True)
    limit_s = float(str(refused.value).split("--time-limit ")[1].split()[0])
    for seed in range(100):
        planned_faults = draw(named, TARGETS, limit_s, Random(seed), chosen_by_user=True).planned_faults
        assert {planned.fault for planned in planned_faults} == set(names)


def test_faults_that_begin_later_keep_their_distances() -> None:
    named = [NEMESES["kill-broker"], NEMESES["partition"]]
    least_s = LEAD_S + sum(nemesis.duration_s for nemesis in named)
    early, late = (
        draw(named, TARGETS, limit_s, Random(1), chosen_by_user=True).planned_faults
        for limit_s in (least_s, least_s + 3)
    )
    assert [fault.fault for fault in early] == [fault.fault for fault in late]
    assert [round(fault.start_s - late[0].start_s, 2) for fault in late] == [
        round(fault.start_s - early[0].start_s, 2) for fault in early
    ]
    assert late[0].start_s == early[0].start_s + 3


@settings(max_examples=10)
@given(SEEDS, LIMITS)
def test_a_fault_is_scheduled_or_the_schedule_says_why_not(seed: int, limit_s: float) -> None:
    schedule = draw(list(DRAWN.values()), TARGETS, limit_s, Random(seed), chosen_by_user=False)
    assert {planned.fault for planned in schedule.planned_faults} | set(schedule.left_out) == set(DRAWN)
    assert not {planned.fault for planned in schedule.planned_faults} & set(schedule.left_out)


def test_the_error_for_a_short_time_limit_names_one_that_suffices() -> None:
    named = [NEMESES["kill-broker"], NEMESES["partition"]]
    with pytest.raises(UsageError, match=r"--time-limit (\d+)") as refused:
        draw(named, TARGETS, 20, Random(1), chosen_by_user=True)
    limit_s = float(str(refused.value).split("--time-limit ")[1].split()[0])
    assert {
        planned.fault
        for planned in draw(named, TARGETS, limit_s, Random(1), chosen_by_user=True).planned_faults
    } == {
        "kill-broker",
        "partition",
    }
    assert str(refused.value).endswith("or more, or fewer faults")
    with pytest.raises(UsageError, match=r"--time-limit \d+ or more$"):
        draw(named[:1], TARGETS, 20, Random(1), chosen_by_user=True)


@settings(max_examples=10)
@given(SEEDS, LIMITS)
def test_a_drawn_fault_waits_for_each_earlier_fault_with_which_it_shares_a_resource(
    seed: int, limit_s: float
) -> None:
    schedule = draw(list(DRAWN.values()), TARGETS, limit_s, Random(seed), chosen_by_user=False)
    for earlier, later in combinations(schedule.planned_faults, 2):
        shared = NEMESES[earlier.fault].occupies(earlier) & NEMESES[later.fault].occupies(later)
        assert must_wait(later, earlier, NEMESES) == bool(shared)
    assert not lack_leaders(schedule.planned_faults, NEMESES)


def fault(text: str, start_s: float = 0.0, hold_s: float = 8.0, **parameters: str) -> PlannedFault:
    """A fault of a text such as `partition isolate:1`."""
    name, target = text.split()
    return PlannedFault(name, Target.parse(target), start_s, hold_s, parameters)


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (fault("kill-broker leader:in/0"), fault("pause-broker leader:out/0"), None),
        (fault("kill-broker leader:in/0"), fault("kill-worker worker:shop/shop-1", step="after-send"), None),
        (fault("kill-worker worker:shop/shop-1"), fault("pause-worker worker:shop/shop-2"), None),
        (fault("late-marker api:WriteTxnMarkers"), fault("lost-response api:EndTxn"), None),
        (fault("lost-response api:EndTxn"), fault("lost-response api:Produce"), "the same rule"),
        (
            fault("kill-worker worker:shop/shop-1"),
            fault("pause-worker worker:shop/shop-1"),
            "both act on worker:shop/shop-1",
        ),
        (fault("partition isolate:2"), fault("partition pair:1-2"), "both act on broker 2"),
        (fault("partition client:w0-2"), fault("lose-answers client:w1-2"), "both act on broker 2"),
        (fault("partition isolate:2"), fault("partition isolate:1"), None),
        (fault("kill-broker broker:2"), fault("partition client:w1-2"), "both act on broker 2"),
        (fault("kill-broker broker:2"), fault("pause-broker leader:in-2/2"), None),
        (
            fault("kill-broker majority:1,3"),
            fault("partition isolate:2"),
            "kill-broker needs both the brokers and the workers for itself",
        ),
        (
            fault("kill-txn-coordinator txn-coordinator:shop-1", state="prepare-commit"),
            fault("partition isolate:1"),
            "kill-txn-coordinator needs both the brokers and the workers for itself",
        ),
        (
            fault("kill-broker leader:in/0", step="after-send"),
            fault("kill-worker worker:shop/shop-1"),
            "kill-broker needs both the brokers and the workers for itself",
        ),
        (
            fault("kill-broker leader:in/0"),
            fault("partition isolate:1", hold_s=60.0),
            "one is healed more than 45 s before the other",
        ),
    ],
)
def test_which_faults_can_overlap(first: PlannedFault, second: PlannedFault, why: str | None) -> None:
    for one, other in ((first, second), (second, first)):
        reason = why_not_together(one, other, NEMESES)
        assert reason is None if why is None else why in (reason or "")


def test_faults_on_brokers_that_overlap_by_plan_do_not_wait_and_may_leave_no_leader() -> None:
    kill, cut = fault("kill-broker leader:in/0", 3.0), fault("partition isolate:1", 10.0)
    after = fault("partition isolate:1", 11.0)
    assert not must_wait(cut, kill, NEMESES) and must_wait(after, kill, NEMESES)
    assert lack_leaders([kill, cut], NEMESES) and not lack_leaders([kill, after], NEMESES)
    assert not lack_leaders([kill, fault("kill-worker worker:shop/shop-1", 4.0)], NEMESES)
    assert not lack_leaders([kill, fault("partition client:w0-1", 4.0)], NEMESES)


def test_a_fault_that_the_cluster_cannot_inject_is_left_out_or_refused_if_named() -> None:
    pause_only = FaultTargets(**{**vars(TARGETS), "abilities": frozenset({Ability.PAUSE})})
    schedule = draw(list(DRAWN.values()), pause_only, 240, Random(1), chosen_by_user=False)
    possible = {name for name, nemesis in DRAWN.items() if nemesis.needs <= {Ability.PAUSE}}
    assert {"pause-broker", "kill-worker", "pause-worker"} <= possible < set(DRAWN)
    assert {fault.fault for fault in schedule.planned_faults} == possible
    assert set(schedule.left_out) == set(DRAWN) - possible
    with pytest.raises(UsageError, match="partition needs a cluster on which one can cut links"):
        draw([NEMESES["partition"]], pause_only, 120, Random(1), chosen_by_user=True)


def test_a_fault_with_an_effect_that_no_link_supports_is_refused() -> None:
    class Latency(LinkEffect):
        action = "delay bytes"

    slow = replace(NEMESES["partition"], needs=frozenset({Cut, Latency}))
    with pytest.raises(UsageError, match="partition needs a cluster on which one can delay bytes"):
        draw([slow], TARGETS, 120, Random(1), chosen_by_user=True)


NO_TARGETS = {
    "brokers": (1,),
    "topic_partitions": (),
    "workers": {"shop": (), "payments": ()},
    "steps": {"shop": tuple(WorkerStep), "payments": ()},
    "zombie_steps": {"shop": tuple(WorkerStep), "payments": ()},
    "groups": {},
    "transactional_ids": {},
    "endpoints": (),
    "services": (),
}


CLOCKS_AND_DISKS = (
    *("jump-broker-clock", "drift-broker-clock", "stop-broker-clock"),
    *("fill-disk", "slow-fsync", "fail-fsync", "empty-disk", "truncate-segment", "flip-bit"),
)


def test_a_fault_without_a_target_is_left_out_or_refused_if_named() -> None:
    empty_targets = FaultTargets(**{**vars(TARGETS), **NO_TARGETS})
    schedule = draw(list(DRAWN.values()), empty_targets, 120, Random(1), chosen_by_user=False)
    assert schedule.planned_faults == ()
    assert schedule.left_out == {
        "kill-broker": "needs a topic",
        "pause-broker": "needs a topic",
        "kill-txn-coordinator": "needs a pipeline with a transactional id",
        "kill-group-coordinator": "needs a pipeline with a consumer group",
        "kill-worker": "needs a pipeline whose workers report their steps",
        "pause-worker": "needs a step at which a worker has polled inputs",
        "pause-worker-unreplaced": "needs a step at which a worker has polled inputs that another worker of its stage "
        "can take over",
        "lose-answers": "needs a pipeline whose workers run on this machine",
        "cut-txn-coordinator": "needs a pipeline with a transactional id",
        "kill-leader-ahead": "needs a topic that workers write",
        "drop-packets": "needs a topic",
        "disconnect-broker": "needs a topic",
        "restart-broker": "needs a topic",
        "move-leader": "needs a topic with two replicas or more",
        "reassign-partitions": "needs a topic",
        "rolling-restart": "needs 3 brokers or more, so that another broker can take over from its target",
        "rolling-upgrade": "needs an older version at the start, such as --kafka 4.3.1",
        "change-transaction-version": "needs a pipeline with a transactional id",
        "roll-segments": "needs a topic",
        "add-partitions": "needs a topic that a stage reads and that may get partitions",
        **dict.fromkeys(CLOCKS_AND_DISKS, "needs a topic"),
        "lose-unsynced-writes": "needs 3 brokers or more",
        "jump-worker-clock": "needs a stage whose workers write a topic",
        **{
            name: "needs a second broker, or a pipeline whose workers run on this machine"
            for name, nemesis in NEMESES.items()
            if "isolate" in nemesis.roles
        },
        **{
            name: "needs a pipeline with a transactional id"
            for name, nemesis in NEMESES.items()
            if nemesis.rule is not None
        },
    }
    with pytest.raises(UsageError, match="kill-worker needs a pipeline whose workers report their steps"):
        draw([NEMESES["kill-worker"]], empty_targets, 120, Random(1), chosen_by_user=True)


def test_kill_postgres_without_postgres_is_refused_if_named_else_ignored() -> None:
    plain = FaultTargets(**{**vars(TARGETS), "services": ()})
    schedule = draw(list(DRAWN.values()), plain, 300, Random(1), chosen_by_user=False)
    mentioned = {fault.fault for fault in schedule.planned_faults} | set(schedule.left_out)
    assert mentioned == set(DRAWN) - {"kill-postgres"}
    with pytest.raises(
        UsageError, match="kill-postgres needs a workload that keeps a table in PostgreSQL, as outbox does"
    ):
        draw([NEMESES["kill-postgres"]], plain, 300, Random(1), chosen_by_user=True)


def test_a_partition_with_one_broker_cuts_a_client() -> None:
    one_broker = FaultTargets(**{**vars(TARGETS), "brokers": (1,)})
    schedule = draw([NEMESES["partition"]], one_broker, 600, Random(1), chosen_by_user=True)
    assert {planned.target.role for planned in schedule.planned_faults} == {"client"}


@pytest.mark.parametrize("brokers", [(1,), (1, 2)])
def test_a_fault_that_needs_a_failover_is_refused_with_fewer_than_3_brokers(
    brokers: tuple[int, ...],
) -> None:
    restricted_targets = FaultTargets(**{**vars(TARGETS), "brokers": brokers, "kafka": "4.3.1"})
    schedule = draw(list(DRAWN.values()), restricted_targets, 300, Random(1), chosen_by_user=False)
    left_out = {name for name, why in schedule.left_out.items() if why.startswith("needs 3 brokers")}
    assert left_out == {
        *(
            "kill-broker",
            "pause-broker",
            "kill-txn-coordinator",
            "kill-group-coordinator",
            "kill-leader-ahead",
            "drop-packets",
            "disconnect-broker",
            "restart-broker",
            "rolling-restart",
            "rolling-upgrade",
            "jump-broker-clock",
            "fill-disk",
            "fail-fsync",
            "empty-disk",
            "truncate-segment",
            "flip-bit",
            "lose-unsynced-writes",
        )
    }
    assert not left_out & {planned.fault for planned in schedule.planned_faults}
    with pytest.raises(
        UsageError, match="kill-broker needs 3 brokers or more, so that another broker can take over"
    ):
        draw([NEMESES["kill-broker"]], restricted_targets, 300, Random(1), chosen_by_user=True)


@given(SEEDS)
def test_only_steps_of_the_stage_are_drawn(seed: int) -> None:
    steps = {"shop": ("before-poll", "after-commit"), "payments": ("after-commit",), "own": ()}
    restricted_targets = FaultTargets(**{**vars(TARGETS), "steps": steps})
    schedule = draw([NEMESES["kill-worker"]], restricted_targets, 60, Random(seed), chosen_by_user=True)
    assert {planned.step for planned in schedule.planned_faults} <= {"before-poll", "after-commit"}


def test_a_schedule_survives_the_round_trip_through_tables() -> None:
    planned = PlannedFault("kill-worker", Target("worker", "shop/shop-1"), 3.25, 1.0, {"step": "after-send"})
    change = PlannedChange(4.5, "shop", joins="shop-4", leaves="shop-2")
    stored = Schedule.from_tables([planned.as_table()], [change.as_table()])
    assert stored == Schedule((planned,), churn=(change,))


def test_a_stored_fault_without_its_target_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="target"):
        Schedule.from_tables([{"fault": "kill-worker", "start_s": 1.0, "hold_s": 1.0}], [])


@given(SEEDS)
def test_a_defect_restricts_the_worker_and_the_step(seed: int) -> None:
    restricted = FaultTargets(**{**vars(TARGETS), "stage": "shop", "step": "after-commit"})
    schedule = draw([NEMESES["kill-worker"]], restricted, 60, Random(seed), chosen_by_user=True)
    assert {planned.step for planned in schedule.planned_faults} == {"after-commit"}
    assert all(str(planned.target).startswith("worker:shop/") for planned in schedule.planned_faults)


def test_the_message_for_a_limit_that_fits_no_fault_names_one_that_suffices() -> None:
    words = no_fault_fits_message([nemesis for nemesis in NEMESES.values() if nemesis.by_default], 5)
    limit = float(words.split("--time-limit ")[1].split()[0])
    by_default = [nemesis for nemesis in NEMESES.values() if nemesis.by_default]
    schedule = draw(by_default, TARGETS, limit, Random(1), chosen_by_user=False)
    assert [planned.fault for planned in schedule.planned_faults] == ["kill-worker"]
    assert words.endswith("kill-worker")
