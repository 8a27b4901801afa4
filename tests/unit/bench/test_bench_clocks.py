"""The stopwatch of a worker's loop, and the stamps by which an output tells its age."""

from pathlib import Path

import pytest

from fencepost.bench.shifts import BenchShift, BenchSpec, poll_available
from fencepost.bench.sight import _ENTRY, read_latencies, read_stamp, stamped_value
from fencepost.bench.stopwatch import WARM_UP, Stopwatch
from harness.processes.encoding import decode, encode
from harness.processes.specs import ClientSpec, JvmSpec
from workloads.model.policy import Delivery


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def go(self, seconds: float) -> None:
        self.now_s += seconds


def batches(count: int) -> dict[str, float]:
    """Of 10 ms each: a poll of 1, a flush of 6, a commit of 2, and 1 for the rest."""
    clock = Clock()
    watch = Stopwatch(clock)
    poll, flush, commit = (
        watch.timed(step, lambda seconds=seconds: clock.go(seconds))
        for step, seconds in (("poll", 0.001), ("flush", 0.006), ("commit", 0.002))
    )
    for n in range(count):
        if n == 1:
            clock.go(5.0)  # the warm-up, of which nothing is told
        before_s = watch.spent("poll")
        poll()
        watch.batch_begins(watch.spent("poll") - before_s)
        flush()
        commit()
        clock.go(0.001)
    return watch.per_batch_ms()


def test_the_steps_of_a_batch_and_the_rest_add_up():
    steps = batches(WARM_UP + 5)
    assert steps == pytest.approx({"poll": 1.0, "flush": 6.0, "commit": 2.0, "rest": 1.0})


def test_of_the_warm_up_nothing_is_told():
    assert not batches(WARM_UP)


def test_an_object_is_watched_where_it_has_such_calls():
    class Part:
        def flush(self) -> int:
            clock.go(2.0)
            return 7

    clock, part = Clock(), Part()
    watch = Stopwatch(clock)
    watch.watch(part, {"flush": "flush", "commit": "commit"})
    assert part.flush() == 7
    assert watch.spent("flush") == 2.0


def test_a_stamp_says_which_measurement_and_when():
    measurement, created_ns = read_stamp(stamped_value(12, b"xyz"))
    assert measurement == 12
    assert created_ns > 0


@pytest.mark.parametrize("value", [None, b"", b"x", b"1 2", b"one two three", b"-1 2 3"])
def test_what_bears_no_stamp_is_of_no_measurement(value):
    assert read_stamp(value) == (0, 0)


def test_what_was_seen_is_told_by_measurement_and_a_torn_end_is_left_out(tmp_path: Path):
    path = tmp_path / "seen"
    path.write_bytes(_ENTRY.pack(1, 10, 15) + _ENTRY.pack(2, 20, 27) + _ENTRY.pack(1, 30, 38)[:-3])
    assert list(read_latencies(path, 1)) == [(10, 15)]
    assert list(read_latencies(path, 2)) == [(20, 27)]


def test_a_shift_is_told_to_a_process_whole():
    shift = BenchShift(3, Delivery.TRANSACTIONS, 10, "in", "out", journal=True, eager=False, workers=2)
    spec = BenchSpec(ClientSpec("java", jvm=JvmSpec(Path("j.so"), (), Path("f"))), Path("steps"), (shift,))
    assert decode(BenchSpec, encode(spec)) == spec


def test_an_eager_poll_takes_what_is_there_and_waits_for_no_more():
    asked = []

    def poll(most: int, timeout_s: float) -> list[int]:
        asked.append((most, timeout_s))
        return [7] * min(most, 3)

    assert poll_available(poll)(10, 0.2) == [7] * 4
    assert asked == [(1, 0.2), (9, 0.0)]
    assert poll_available(poll)(1, 0.2) == [7]
    assert poll_available(lambda most, timeout_s: [])(10, 0.2) == []
