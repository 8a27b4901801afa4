"""A schedule is the same for the same seed, and leaves every fault its room."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cluster import Ability
from harness.common.errors import UnreadableInput, UsageError
from harness.model.vocabulary import WorkerStep
from harness.network import Cut, LinkEffect
from harness.runner.churn import PlannedChange
from harness.runner.nemesis import FaultTargets, PlannedFault, Resource, Target
from harness.runner.schedule import LEAD_S, Schedule, draw, sequences, too_short
from nemeses.registry import NEMESES

GROUNDS = FaultTargets(
    brokers=(1, 2, 3),
    topic_partitions=(("in", 0), ("out", 0), ("paid", 0)),
    workers={"shop": ("shop-1", "shop-2"), "payments": ("payments-1",), "own": ("own-1",)},
    steps={"shop": tuple(WorkerStep), "payments": tuple(WorkerStep), "own": ()},
    zombie_steps={"shop": ("after-send",), "payments": ("before-commit",), "own": ()},
    groups={"shop": "g1", "payments": "g2", "own": "g3"},
    transactional_ids={"shop": ("shop-1", "shop-2"), "payments": ("payments-1",)},
    writes={"shop": ("out",), "payments": ("paid",)},
    endpoints=("w0", "w1", "w2"),
    services=("postgres",),
)
SEEDS = st.integers(min_value=0, max_value=2**63 - 1)
LIMITS = st.floats(min_value=1, max_value=600)


@given(SEEDS, LIMITS)
def test_the_same_seed_gives_the_same_schedule(seed: int, limit_s: float) -> None:
    one, other = (draw(list(NEMESES.values()), GROUNDS, limit_s, Random(seed), named=False) for _ in range(2))
    assert one == other


@given(SEEDS, LIMITS)
def test_faults_that_need_the_same_resource_never_overlap_and_end_in_time(seed: int, limit_s: float) -> None:
    schedule = draw(list(NEMESES.values()), GROUNDS, limit_s, Random(seed), named=False)
    for resource in Resource:
        clock_s = LEAD_S
        for strike in (s for s in schedule.planned_faults if resource in NEMESES[s.fault].occupies(s)):
            assert strike.start_s >= clock_s - 0.02
            clock_s = strike.start_s + NEMESES[strike.fault].duration_s
            assert clock_s <= limit_s + 0.02


@given(SEEDS, LIMITS)
def test_a_fault_is_drawn_or_it_is_said_why_not(seed: int, limit_s: float) -> None:
    schedule = draw(list(NEMESES.values()), GROUNDS, limit_s, Random(seed), named=False)
    assert {strike.fault for strike in schedule.planned_faults} | set(schedule.unscheduled) == set(NEMESES)
    assert not {strike.fault for strike in schedule.planned_faults} & set(schedule.unscheduled)


def test_named_faults_that_cannot_fit_are_wrong_usage_and_the_limit_told_would_do() -> None:
    named = [NEMESES["kill-broker"], NEMESES["partition"]]
    with pytest.raises(UsageError, match=r"--time-limit (\d+)") as refused:
        draw(named, GROUNDS, 20, Random(1), named=True)
    told = float(str(refused.value).split("--time-limit ")[1].split()[0])
    assert {s.fault for s in draw(named, GROUNDS, told, Random(1), named=True).planned_faults} == {
        "kill-broker",
        "partition",
    }
    assert str(refused.value).endswith("or more, or fewer faults")
    with pytest.raises(UsageError, match=r"--time-limit \d+ or more$"):
        draw(named[:1], GROUNDS, 20, Random(1), named=True)


@given(SEEDS, LIMITS)
def test_what_shares_a_resource_is_carried_out_one_after_the_other(seed: int, limit_s: float) -> None:
    schedule = draw(list(NEMESES.values()), GROUNDS, limit_s, Random(seed), named=False)
    found = sequences(schedule.planned_faults, NEMESES)
    assert sorted((one for part in found for one in part), key=str) == sorted(
        schedule.planned_faults, key=str
    )
    taken = [{r for one in part for r in NEMESES[one.fault].occupies(one)} for part in found]
    assert sum(map(len, taken)) == len(set().union(*taken))
    assert all(part == sorted(part, key=lambda one: one.start_s) for part in found)


def test_a_fault_that_the_cluster_cannot_take_is_told_and_refused_where_it_was_named() -> None:
    weak = FaultTargets(**{**vars(GROUNDS), "can": frozenset({Ability.PAUSE})})
    schedule = draw(list(NEMESES.values()), weak, 120, Random(1), named=False)
    possible = {name for name, nemesis in NEMESES.items() if nemesis.needs <= {Ability.PAUSE}}
    assert {"pause-broker", "kill-worker", "pause-worker"} <= possible < set(NEMESES)
    assert {one.fault for one in schedule.planned_faults} == possible
    assert set(schedule.unscheduled) == set(NEMESES) - possible
    with pytest.raises(UsageError, match="partition needs a cluster on which one can cut links"):
        draw([NEMESES["partition"]], weak, 120, Random(1), named=True)


def test_a_fault_whose_effect_no_link_can_have_is_refused_before_the_run() -> None:
    class Latency(LinkEffect):
        action = "delay bytes"

    slow = replace(NEMESES["partition"], needs=frozenset({Cut, Latency}))
    with pytest.raises(UsageError, match="partition needs a cluster on which one can delay bytes"):
        draw([slow], GROUNDS, 120, Random(1), named=True)


NOTHING = {
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


def test_a_fault_that_finds_nothing_to_strike_is_told_and_refused_where_it_was_named() -> None:
    bare = FaultTargets(**{**vars(GROUNDS), **NOTHING})
    schedule = draw(list(NEMESES.values()), bare, 120, Random(1), named=False)
    assert schedule.planned_faults == ()
    assert schedule.unscheduled == {
        "kill-broker": "needs a topic",
        "pause-broker": "needs a topic",
        "kill-txn-coordinator": "needs a pipeline with a transactional id",
        "kill-group-coordinator": "needs a pipeline with a consumer group",
        "partition": "needs a second broker, or a pipeline whose workers run on this machine",
        "kill-worker": "needs a pipeline whose workers report their steps",
        "pause-worker": "needs a step at which a worker has polled inputs",
        "lose-answers": "needs a pipeline whose workers run on this machine",
        "cut-txn-coordinator": "needs a pipeline with a transactional id",
        "kill-leader-ahead": "needs a topic that workers write",
        "drop-packets": "needs a topic",
        "disconnect-broker": "needs a topic",
    }
    with pytest.raises(UsageError, match="kill-worker needs a pipeline whose workers report their steps"):
        draw([NEMESES["kill-worker"]], bare, 120, Random(1), named=True)


def test_what_few_pipelines_have_is_missed_only_where_it_was_named() -> None:
    plain = FaultTargets(**{**vars(GROUNDS), "services": ()})
    schedule = draw(list(NEMESES.values()), plain, 300, Random(1), named=False)
    told = {one.fault for one in schedule.planned_faults} | set(schedule.unscheduled)
    assert told == set(NEMESES) - {"kill-postgres"}
    with pytest.raises(
        UsageError, match="kill-postgres needs a workload that keeps a table in PostgreSQL, as outbox does"
    ):
        draw([NEMESES["kill-postgres"]], plain, 300, Random(1), named=True)


def test_one_broker_can_still_be_cut_from_a_client() -> None:
    one = FaultTargets(**{**vars(GROUNDS), "brokers": (1,)})
    schedule = draw([NEMESES["partition"]], one, 600, Random(1), named=True)
    assert {strike.target.role for strike in schedule.planned_faults} == {"client"}


@pytest.mark.parametrize("brokers", [(1,), (1, 2)])
def test_a_fault_that_needs_a_failover_is_refused_where_nobody_can_take_over(
    brokers: tuple[int, ...],
) -> None:
    few = FaultTargets(**{**vars(GROUNDS), "brokers": brokers})
    schedule = draw(list(NEMESES.values()), few, 300, Random(1), named=False)
    left_out = {name for name, why in schedule.unscheduled.items() if why.startswith("needs 3 brokers")}
    assert left_out == {
        *(
            "kill-broker",
            "pause-broker",
            "kill-txn-coordinator",
            "kill-group-coordinator",
            "kill-leader-ahead",
            "drop-packets",
            "disconnect-broker",
        )
    }
    assert not left_out & {strike.fault for strike in schedule.planned_faults}
    with pytest.raises(
        UsageError, match="kill-broker needs 3 brokers or more, so that another can take over"
    ):
        draw([NEMESES["kill-broker"]], few, 300, Random(1), named=True)


@given(SEEDS)
def test_a_step_that_the_loop_never_comes_to_is_not_drawn(seed: int) -> None:
    steps = {"shop": ("before-poll", "after-commit"), "payments": ("after-commit",), "own": ()}
    few = FaultTargets(**{**vars(GROUNDS), "steps": steps})
    schedule = draw([NEMESES["kill-worker"]], few, 60, Random(seed), named=True)
    assert {strike.step for strike in schedule.planned_faults} <= {"before-poll", "after-commit"}


def test_a_schedule_survives_its_tables() -> None:
    strike = PlannedFault("kill-worker", Target("worker", "shop/shop-1"), 3.25, 1.0, {"step": "after-send"})
    turn = PlannedChange(4.5, "shop", joins="shop-4", leaves="shop-2")
    stored = Schedule.from_tables([strike.as_table()], [turn.as_table()])
    assert stored == Schedule((strike,), churn=(turn,))


def test_a_stored_strike_without_its_target_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="target"):
        Schedule.from_tables([{"fault": "kill-worker", "start_s": 1.0, "hold_s": 1.0}], [])


@given(SEEDS)
def test_a_defect_confines_the_worker_and_the_step(seed: int) -> None:
    confined = FaultTargets(**{**vars(GROUNDS), "stage": "shop", "step": "after-commit"})
    schedule = draw([NEMESES["kill-worker"]], confined, 60, Random(seed), named=True)
    assert {strike.step for strike in schedule.planned_faults} == {"after-commit"}
    assert all(str(strike.target).startswith("worker:shop/") for strike in schedule.planned_faults)


def test_a_limit_without_room_for_any_fault_says_which_would_do() -> None:
    words = too_short(NEMESES.values(), 5)
    limit = float(words.split("--time-limit ")[1].split()[0])
    schedule = draw(list(NEMESES.values()), GROUNDS, limit, Random(1), named=False)
    assert [strike.fault for strike in schedule.planned_faults] == ["kill-worker"]
    assert words.endswith("kill-worker")
