"""End markers of custom pipelines: end offsets instead of sentinels, and idle times of stages without a group."""

import pytest

from harness.common.errors import WaitTimeout
from harness.model.pipeline import StageSpec, TopicPartition
from harness.runner import end_markers as ends_module
from harness.runner.end_markers import OffsetEndMarkers
from harness.testing.fake_cluster import FakeCluster
from harness.wire.protocol import WireError

WITHOUT_GROUP = StageSpec("s", ("in",), None, writes=("out",), journaled=False, idle_s=4.0)
WITH_GROUP = StageSpec("s", ("in",), "g", writes=("out",), journaled=False)


class Clock:
    """A monotonic clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(ends_module, "time", self)

    def monotonic(self) -> float:
        return self.now_s


def cluster(**ends: int) -> FakeCluster:
    """Return a cluster whose topics have one partition. `ends` has their high watermarks, without open transactions."""
    return FakeCluster(ends={(topic, 0): (0, high, high) for topic, high in ends.items()})


def test_a_stage_without_a_group_is_drained_after_its_idle_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, fake = Clock(monkeypatch), cluster(out=5)
    ends = OffsetEndMarkers(fake)
    assert ends.inputs_left(WITHOUT_GROUP) is None  # it may be writing now
    clock.now_s += 3
    assert ends.inputs_left(WITHOUT_GROUP) is None
    fake.ends["out", 0] = (0, 6, 6)
    clock.now_s += 3
    assert ends.inputs_left(WITHOUT_GROUP) is None  # it has written meanwhile
    clock.now_s += 3.9
    assert ends.inputs_left(WITHOUT_GROUP) is None
    clock.now_s += 0.1
    assert ends.inputs_left(WITHOUT_GROUP) == 0
    fake.ends["out", 0] = (0, 6, 7)  # even if that is not committed yet
    assert ends.inputs_left(WITHOUT_GROUP) is None


def test_a_stage_that_is_starting_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ends = Clock(monkeypatch), OffsetEndMarkers(cluster(out=5))
    assert ends.inputs_left(WITHOUT_GROUP) is None
    clock.now_s += 10
    assert ends.inputs_left(WITHOUT_GROUP, starting=True) is None
    assert ends.inputs_left(WITHOUT_GROUP) is None  # it has just started
    clock.now_s += 4
    assert ends.inputs_left(WITHOUT_GROUP) == 0


def test_the_progress_of_a_stage_without_a_group_is_what_it_has_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Clock(monkeypatch)
    fake = cluster(out=5)
    ends = OffsetEndMarkers(fake)
    assert ends.outputs_written(WITHOUT_GROUP) == 0  # nothing was measured yet
    ends.inputs_left(WITHOUT_GROUP)
    fake.ends["out", 0] = (0, 9, 9)
    assert ends.outputs_written(WITHOUT_GROUP) == 5
    ends.inputs_left(WITHOUT_GROUP)
    assert ends.outputs_written(WITHOUT_GROUP) == 9
    assert OffsetEndMarkers(fake).outputs_written(WITH_GROUP) == 0


def test_each_stage_has_its_own_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ends = Clock(monkeypatch), OffsetEndMarkers(cluster(out=5, more=5))
    second = StageSpec("t", ("out",), None, writes=("more",), journaled=False)
    assert ends.inputs_left(WITHOUT_GROUP) is None
    clock.now_s += WITHOUT_GROUP.idle_s
    assert (ends.inputs_left(WITHOUT_GROUP), ends.inputs_left(second)) == (0, None)


def test_the_inputs_left_are_not_known_if_the_cluster_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = cluster(out=5)

    def time_out(topics: object) -> dict[TopicPartition, tuple[int, int, int]]:
        raise WaitTimeout("the ends of out", 1.0, "nothing")

    monkeypatch.setattr(fake, "log_offsets", time_out)
    assert OffsetEndMarkers(fake).inputs_left(WITHOUT_GROUP) is None


def test_the_inputs_left_of_a_group_are_those_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends_module, "count_unread", lambda bootstrap, behind: len(behind) * 100)
    fake = cluster(**{"in": 10, "out": 5})
    ends = OffsetEndMarkers(fake)
    assert ends.inputs_left(WITH_GROUP) == 100
    fake.offsets["g"] = {("in", 0): 10}
    assert ends.inputs_left(WITH_GROUP) == 0
    fake.ends["in", 0] = (0, 10, 11)
    assert ends.inputs_left(WITH_GROUP) is None  # something is not committed yet


def test_the_end_offsets_are_read_once_before_the_final_reads() -> None:
    fake = cluster(**{"in": 10, "out": 5})
    fake.ends["out", 0] = (2, 5, 7)
    ends = OffsetEndMarkers(fake)
    assert ends.end_offsets == {}
    ends.resolve_ends([("in", 0), ("out", 0)])
    fake.ends["in", 0] = (0, 99, 99)
    assert ends.end_offsets == {("in", 0): 10, ("out", 0): 7}


def test_internal_topics_of_a_program_count_as_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = cluster(**{"in": 5, "between": 9})
    fake.offsets["g"] = {("in", 0): 5}
    monkeypatch.setattr(ends_module, "count_unread", lambda bootstrap, positions: len(positions))
    assert OffsetEndMarkers(fake).inputs_left(WITH_GROUP) == 0
    fake.offsets["g"] = {("in", 0): 5, ("between", 0): 7}
    assert OffsetEndMarkers(fake).inputs_left(WITH_GROUP) == 1


def test_committed_offsets_that_are_not_seen_are_explained_by_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = cluster(**{"in": 10, "out": 5})
    refused = "the group g has no coordinator: finding the coordinator of g was refused with error 15"

    def time_out(group: str) -> dict[TopicPartition, int]:
        raise WaitTimeout(f"the committed offsets of {group}", 15.0, WireError(refused))

    monkeypatch.setattr(fake, "committed_offsets", time_out)
    ends = OffsetEndMarkers(fake)
    assert ends.inputs_left(WITH_GROUP) is None
    assert ends.last_seen(WITH_GROUP) == (
        f"the cluster was asked for the committed offsets of g, and answered: {refused}"
    )


def test_an_open_transaction_is_named_as_the_reason_for_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends_module, "count_unread", lambda bootstrap, behind: 3)
    fake = FakeCluster(ends={("in", 0): (0, 7, 9)}, offsets={"g": {("in", 0): 4}})
    ends = OffsetEndMarkers(fake)
    assert ends.inputs_left(WITH_GROUP) is None
    assert ends.last_seen(WITH_GROUP) == "a transaction is open in in/0 at offset 7"
    fake.ends["in", 0] = (0, 7, 7)
    assert ends.inputs_left(WITH_GROUP) == 3
    assert ends.last_seen(WITH_GROUP) == "in/0 is processed to offset 4 of 7"
