"""Of topics that are not ours the ends are asked for, and a stage without a group is done once it is still."""

import pytest

from harness.common.errors import WaitTimeout
from harness.model.pipeline import StageSpec, TopicPartition
from harness.runner import end_markers as ends_module
from harness.runner.end_markers import OffsetEndMarkers
from harness.testing.fake_cluster import FakeCluster

ALONE = StageSpec("s", ("in",), None, writes=("out",), journaled=False, idle_s=4.0)
GROUPED = StageSpec("s", ("in",), "g", writes=("out",), journaled=False)


class Clock:
    """What the time is, as it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(ends_module, "time", self)

    def monotonic(self) -> float:
        return self.now_s


def cluster(**ends: int) -> FakeCluster:
    """By topic, the high watermark of its one partition, up to which all is committed."""
    return FakeCluster(ends={(topic, 0): (0, high, high) for topic, high in ends.items()})


def test_a_stage_without_a_group_is_done_once_it_has_written_nothing_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, asked = Clock(monkeypatch), cluster(out=5)
    ends = OffsetEndMarkers(asked)
    assert ends.inputs_left(ALONE) is None  # for all that is known it is just writing
    clock.now_s += 3
    assert ends.inputs_left(ALONE) is None
    asked.ends["out", 0] = (0, 6, 6)
    clock.now_s += 3
    assert ends.inputs_left(ALONE) is None  # since then it has written
    clock.now_s += 3.9
    assert ends.inputs_left(ALONE) is None
    clock.now_s += 0.1
    assert ends.inputs_left(ALONE) == 0
    asked.ends["out", 0] = (0, 6, 7)  # even if that is not committed yet
    assert ends.inputs_left(ALONE) is None


def test_who_starts_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ends = Clock(monkeypatch), OffsetEndMarkers(cluster(out=5))
    assert ends.inputs_left(ALONE) is None
    clock.now_s += 10
    assert ends.inputs_left(ALONE, starting=True) is None
    assert ends.inputs_left(ALONE) is None  # it has just come up
    clock.now_s += 4
    assert ends.inputs_left(ALONE) == 0


def test_what_a_stage_without_a_group_writes_is_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    asked = cluster(out=5)
    ends = OffsetEndMarkers(asked)
    assert ends.outputs_written(ALONE) == 0  # nobody has looked
    ends.inputs_left(ALONE)
    asked.ends["out", 0] = (0, 9, 9)
    assert ends.outputs_written(ALONE) == 5
    ends.inputs_left(ALONE)
    assert ends.outputs_written(ALONE) == 9
    assert OffsetEndMarkers(asked).outputs_written(GROUPED) == 0


def test_each_stage_is_still_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ends = Clock(monkeypatch), OffsetEndMarkers(cluster(out=5, more=5))
    other = StageSpec("t", ("out",), None, writes=("more",), journaled=False)
    assert ends.inputs_left(ALONE) is None
    clock.now_s += ALONE.idle_s
    assert (ends.inputs_left(ALONE), ends.inputs_left(other)) == (0, None)


def test_a_cluster_that_does_not_answer_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = cluster(out=5)

    def silent(topics: object) -> dict[TopicPartition, tuple[int, int, int]]:
        raise WaitTimeout("the ends of out", 1.0, "nothing")

    monkeypatch.setattr(asked, "log_offsets", silent)
    assert OffsetEndMarkers(asked).inputs_left(ALONE) is None


def test_a_stage_with_a_group_is_asked_what_it_has_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends_module, "count_unread", lambda bootstrap, behind: len(behind) * 100)
    asked = cluster(**{"in": 10, "out": 5})
    ends = OffsetEndMarkers(asked)
    assert ends.inputs_left(GROUPED) == 100
    asked.offsets["g"] = {("in", 0): 10}
    assert ends.inputs_left(GROUPED) == 0
    asked.ends["in", 0] = (0, 10, 11)
    assert ends.inputs_left(GROUPED) is None  # something is not committed yet


def test_where_each_partition_ends_is_asked_before_anybody_reads() -> None:
    asked = cluster(**{"in": 10, "out": 5})
    asked.ends["out", 0] = (2, 5, 7)
    ends = OffsetEndMarkers(asked)
    assert ends.end_offsets == {}
    ends.resolve_ends([("in", 0), ("out", 0)])
    asked.ends["in", 0] = (0, 99, 99)
    assert ends.end_offsets == {("in", 0): 10, ("out", 0): 7}


def test_what_a_program_hands_on_to_itself_is_left_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = cluster(**{"in": 5, "between": 9})
    asked.offsets["g"] = {("in", 0): 5}
    monkeypatch.setattr(ends_module, "count_unread", lambda bootstrap, positions: len(positions))
    assert OffsetEndMarkers(asked).inputs_left(GROUPED) == 0
    asked.offsets["g"] = {("in", 0): 5, ("between", 0): 7}
    assert OffsetEndMarkers(asked).inputs_left(GROUPED) == 1
