"""Bars are merged, and lanes are chosen, so that the size of the axis does not grow with the run."""

import numpy as np
import pytest

from reports.pictures.lanes import MOST_BARS, AxisBar, Lane, LaneGroup, bars, choose

MS = 1_000_000


def of(
    begin_ms: list[int], end_ms: list[int], codes: list[int], texts: list[str | None], most: int
) -> list[AxisBar]:
    begin, end = (np.array(times, np.int64) for times in (begin_ms, end_ms))
    return bars(begin * MS, np.where(end < 0, -1, end * MS), ("good", "bad"), np.array(codes), texts, most)


def test_few_bars_stay_as_they_are_in_the_order_of_their_begin() -> None:
    assert of([30, 10, 20], [31, 15, -1], [0, 1, 0], ["c", "a", None], 3) == [
        AxisBar(10, 15, "bad", text="a"),
        AxisBar(20, None, "good"),
        AxisBar(30, 31, "good", text="c"),
    ]


def test_dense_bars_are_merged_by_kind_and_keep_their_count() -> None:
    begin = list(range(0, 1000, 10))
    merged = of(begin, [time + 5 for time in begin], [0] * 50 + [1] + [0] * 49, [], 20)
    assert len(merged) <= 20
    assert sum(bar.count for bar in merged if bar.kind == "good") == 99
    assert [bar for bar in merged if bar.kind == "bad"] == [AxisBar(500, 505, "bad")]
    assert max(bar.to_ms or 0 for bar in merged) == 995


def test_a_bar_that_is_long_or_has_no_end_is_not_merged_with_short_ones() -> None:
    begin = [*range(0, 1000, 10), 501, 502]
    end = [*(time + 5 for time in range(0, 1000, 10)), 900, -1]
    merged = of(begin, end, [0] * 102, [], 20)
    assert AxisBar(501, 900, "good") in merged and AxisBar(502, None, "good") in merged
    assert sum(bar.count for bar in merged) == 102
    assert len(merged) <= 20


@pytest.mark.parametrize("kinds", [1, 4, 6])
def test_a_lane_is_bounded_for_a_million_bars_of_any_kinds(kinds: int) -> None:
    rng = np.random.default_rng(7)
    begin = rng.integers(0, 3_600_000_000_000, 1_000_000)
    end = np.where(rng.random(1_000_000) < 0.3, -1, begin + rng.integers(0, 10**12, 1_000_000))
    merged = bars(begin, end, tuple("abcdef"), rng.integers(0, kinds, 1_000_000))
    assert len(merged) <= MOST_BARS
    assert sum(bar.count for bar in merged) == 1_000_000


def lane(group: LaneGroup, name: str, of_finding: bool = False) -> Lane:
    return Lane(group, name, [AxisBar(0, 1, "good")], of_finding)


def test_lanes_of_findings_are_chosen_first_and_the_groups_share_the_rest() -> None:
    transactions = [lane(LaneGroup.TRANSACTIONS, f"id-{n}", n == 7) for n in range(10)]
    logs = [lane(LaneGroup.LOGS, f"broker {n}") for n in range(3)]
    chosen, left_out = choose([*logs, *transactions, lane(LaneGroup.FAULTS, "faults", True)], 6)
    assert [each.name for each in chosen] == ["faults", "id-0", "id-1", "id-7", "broker 0", "broker 1"]
    assert left_out == {LaneGroup.TRANSACTIONS: 7, LaneGroup.LOGS: 1}


def test_a_bar_is_encoded_without_the_empty_values_at_its_end() -> None:
    assert AxisBar(1, 2, "good").as_json() == [1, 2, "good"]
    assert AxisBar(1, None, "good", 3).as_json() == [1, None, "good", 3]
    assert AxisBar(1, 2, "good", text="token=abc").as_json() == [1, 2, "good", 1, "token=<redacted>"]
    assert AxisBar(1, 2, "good", anchor="fault-1").as_json() == [1, 2, "good", 1, "", "fault-1"]
