"""`--nemesis kill-broker+partition`: faults that overlap. `--nemesis random` and `kill-broker=3`: faults by weight."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from fencepost.registry import command_line, known_names
from fencepost.runs.planning import draw_schedule
from harness.common.errors import UsageError
from harness.model.fault_names import expand_names
from harness.runner.nemesis import PlannedFault, Resource
from harness.runner.schedule import Schedule
from harness.settings.options import Options, from_toml, to_toml
from nemeses.registry import NEMESES
from workloads.registry import WORKLOADS

SHOP = WORKLOADS["shop"]
SEEDS = range(10)


def options_of(*names: str, seed: int = 1, limit_s: float = 120.0, **changes: object) -> Options:
    return replace(Options(nemesis=names, seed=seed, time_limit_s=limit_s), **changes)  # type: ignore[arg-type]


def drawn(*names: str, seed: int = 1, limit_s: float = 120.0, **changes: object) -> list[PlannedFault]:
    options = options_of(*names, seed=seed, limit_s=limit_s, **changes).validated(known_names())
    return list(draw_schedule(options, SHOP).planned_faults)


@pytest.mark.parametrize(
    "name",
    [
        "kill-worker@after-send+partition",
        "kill-worker+pause-worker",
        "kill-broker@controller+kill-worker+lost-response",
        "partition+partition",
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_fault_begins_while_the_earlier_ones_are_active(name: str, seed: int) -> None:
    faults, names = drawn(name, seed=seed), [part.partition("@")[0] for part in name.split("+")]
    groups = [faults[at : at + len(names)] for at in range(0, len(faults), len(names))]
    assert len(groups) > 2
    for group in groups:
        assert [fault.fault for fault in group] == names
        assert group[-1].start_s < min(fault.end_s for fault in group)
        assert all(first.start_s < second.start_s for first, second in pairwise(group))
    for before, after in pairwise(groups):
        assert max(fault.end_s for fault in before) < after[0].start_s


def test_the_offset_is_drawn_from_the_seed() -> None:
    offsets = {
        round(second.start_s - first.start_s, 2)
        for first, second, *_ in (drawn("kill-broker+kill-worker", seed=seed) for seed in SEEDS)
    }
    assert len(offsets) > 5


def test_a_schedule_of_overlapping_faults_survives_the_round_trip_through_tables() -> None:
    faults = drawn("kill-worker+partition")
    assert Schedule.from_tables([fault.as_table() for fault in faults], ()).planned_faults == tuple(faults)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("kill-broker+kill-brokr",), 'there is no fault "kill-brokr"'),
        (("kill-broker+none",), "none cannot be a part of kill-broker+none"),
        (("crash-points+partition",), "crash-points cannot be a part of crash-points+partition"),
        (("random+partition",), "random cannot be a part of random"),
        (("kill-broker+",), 'there is no fault ""'),
        (
            ("kill-txn-coordinator@prepare-commit+partition",),
            "cannot be, because the faults cannot overlap: kill-txn-coordinator needs both the brokers and the workers",
        ),
        (
            ("kill-broker+pause-broker",),
            "kill-broker+pause-broker needs 4 brokers or more, so that others can take over from all its targets",
        ),
        (("kill-broker+kill-instance",), "kill-broker+kill-instance needs a custom pipeline"),
        (("lost-response+lost-response",), "both are the same rule for Kafka's messages"),
        (("kill-broker=0",), "the weight of kill-broker must be a number above 0, at most 1000, not 0"),
        (("kill-broker=many",), "the weight of kill-broker must be a number above 0, at most 1000, not many"),
        (("none=2",), "none cannot be a part of none=2"),
        (("random=2",), "random cannot be a part of random=2"),
        (("random", "kill-broker"), "random draws from all default faults: leave it out and give each fault a weight"),
        (("kill-instance=3", "kill-broker"), "kill-instance needs a custom pipeline"),
    ],
)  # fmt: skip
def test_a_name_that_means_nothing_is_refused_with_one_sentence(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        drawn(*names)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_faults_without_room_are_refused_with_a_time_limit_that_has_it() -> None:
    for names in (("kill-broker+kill-worker",), ("kill-broker=3", "kill-worker")):
        with pytest.raises(
            UsageError, match=r"no room for kill-broker.* in 10 s: choose --time-limit \d+"
        ) as refused:
            drawn(*names, limit_s=10.0)
        limit_s = float(str(refused.value).split("--time-limit ")[1].split()[0])
        assert drawn(*names, limit_s=limit_s)


def test_faults_are_drawn_by_their_weights() -> None:
    counts = Counter(
        fault.fault
        for seed in SEEDS
        for fault in drawn("kill-broker=3", "pause-broker", "kill-worker=2", seed=seed, limit_s=2000.0)
    )
    assert 2.3 < counts["kill-broker"] / counts["pause-broker"] < 3.9
    assert 1.6 < counts["kill-worker"] / counts["pause-broker"] < 2.6


def test_random_draws_from_the_default_faults_until_the_time_is_full() -> None:
    default = {name for name, nemesis in NEMESES.items() if nemesis.by_default}
    seen: set[str] = set()
    for seed in SEEDS:
        faults = drawn("random", seed=seed, limit_s=300.0)
        seen |= {fault.fault for fault in faults}
        assert faults[-1].end_s > 270
        for resource in Resource:
            own = [fault for fault in faults if resource in NEMESES[fault.fault].occupies(fault)]
            assert not any(first.overlaps(second) for first, second in pairwise(own))
    assert seen <= default and {"kill-broker", "partition", "kill-worker", "pause-worker"} <= seen
    assert draw_schedule(options_of("random"), SHOP).left_out == {}
    assert drawn("random") != list(draw_schedule(replace(options_of(), nemesis=None), SHOP).planned_faults)


def test_random_without_room_plans_nothing_and_says_why() -> None:
    schedule = draw_schedule(options_of("random", limit_s=3.0), SHOP)
    assert schedule.planned_faults == () and "did not fit into 3 s" in schedule.left_out["kill-broker"]


def test_overlaps_can_have_weights_and_survive_the_command_line_and_toml() -> None:
    names = ("kill-worker+partition=2", "kill-broker@controller")
    faults = Counter(fault.fault for fault in drawn(*names, limit_s=1000.0))
    assert faults["kill-worker"] == faults["partition"] > faults["kill-broker"] > 0
    options = options_of(*names)
    assert "kill-worker+partition=2,kill-broker@controller" in command_line(options)
    assert from_toml(to_toml(options)) == options


def test_crash_points_can_have_a_weight() -> None:
    pipeline = SHOP.spec(Options())
    faults = drawn("crash-points=2", "kill-broker", limit_s=600.0)
    points = {name.partition("@")[2] for name in expand_names(["crash-points"], pipeline)}
    assert {fault.step for fault in faults if fault.fault == "kill-worker"} <= points
