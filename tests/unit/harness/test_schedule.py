"""A schedule is the same for the same seed, and leaves every fault its room."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.runner.schedule import LEAD_S, FaultTargets, Injection, Lane, draw, too_short
from nemeses.registry import NEMESES

GROUNDS = FaultTargets(
    brokers=(1, 2, 3),
    places=(("in", 0), ("out", 0)),
    workers={"shop": ("shop-1", "shop-2"), "payments": ("payments-1",)},
    groups=("g1", "g2"),
    slots=("w0", "w1", "w2"),
)
SEEDS = st.integers(min_value=0, max_value=2**63 - 1)
LIMITS = st.floats(min_value=1, max_value=600)


@given(SEEDS, LIMITS)
def test_the_same_seed_gives_the_same_schedule(seed: int, limit_s: float) -> None:
    one, other = (draw(list(NEMESES.values()), GROUNDS, limit_s, Random(seed), named=False) for _ in range(2))
    assert one == other


@given(SEEDS, LIMITS)
def test_faults_of_one_lane_never_overlap_and_end_in_time(seed: int, limit_s: float) -> None:
    schedule = draw(list(NEMESES.values()), GROUNDS, limit_s, Random(seed), named=False)
    for lane in Lane:
        clock_s = LEAD_S
        for strike in (s for s in schedule.injections if NEMESES[s.fault].lane is lane):
            assert strike.start_s >= clock_s - 0.02
            clock_s = strike.start_s + NEMESES[strike.fault].room_s
            assert clock_s <= limit_s + 0.02


@given(SEEDS, LIMITS)
def test_a_fault_is_drawn_or_it_is_said_why_not(seed: int, limit_s: float) -> None:
    schedule = draw(list(NEMESES.values()), GROUNDS, limit_s, Random(seed), named=False)
    assert {strike.fault for strike in schedule.injections} | set(schedule.unscheduled) == set(NEMESES)
    assert not {strike.fault for strike in schedule.injections} & set(schedule.unscheduled)


def test_named_faults_that_cannot_fit_are_wrong_usage_and_the_limit_told_would_do() -> None:
    named = [NEMESES["kill-broker"], NEMESES["partition"]]
    with pytest.raises(UsageError, match=r"--time-limit (\d+)") as refused:
        draw(named, GROUNDS, 20, Random(1), named=True)
    told = float(str(refused.value).split("--time-limit ")[1].split()[0])
    assert {s.fault for s in draw(named, GROUNDS, told, Random(1), named=True).injections} == {
        "kill-broker",
        "partition",
    }


def test_a_strike_survives_its_table() -> None:
    strike = Injection("kill-worker", "worker:shop/shop-1", 3.25, 1.0, "after-send")
    assert Injection.from_table(strike.as_table()) == strike


@given(SEEDS)
def test_a_defect_confines_the_worker_and_the_step(seed: int) -> None:
    confined = FaultTargets(**{**vars(GROUNDS), "stage": "shop", "step": "after-commit"})
    schedule = draw([NEMESES["kill-worker"]], confined, 60, Random(seed), named=True)
    assert {strike.step for strike in schedule.injections} == {"after-commit"}
    assert all(strike.target.startswith("worker:shop/") for strike in schedule.injections)


def test_a_limit_without_room_for_any_fault_says_which_would_do() -> None:
    words = too_short(NEMESES.values(), 5)
    limit = float(words.split("--time-limit ")[1].split()[0])
    schedule = draw(list(NEMESES.values()), GROUNDS, limit, Random(1), named=False)
    assert [strike.fault for strike in schedule.injections] == ["kill-worker"]
    assert words.endswith("kill-worker")
