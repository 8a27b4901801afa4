"""The stopwatch of a worker's loop, and the stamps in outputs from which latencies are measured."""

from pathlib import Path

import pytest

from benchmarks.exactly_once.outputs import _ENTRY, read_latencies, read_stamp, stamped_value
from benchmarks.exactly_once.stopwatch import WARM_UP, Stopwatch
from benchmarks.exactly_once.worker_process import BenchShift, BenchSpec, poll_available
from harness.processes.messages import decode, encode
from harness.processes.specs import ClientSpec, JvmSpec
from workloads.model.policy import Delivery


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


def batches(count: int) -> dict[str, float]:
    """Measure batches of 10 ms: a poll of 1 ms, a flush of 6 ms, a commit of 2 ms, and 1 ms for the rest."""
    clock = Clock()
    watch = Stopwatch(clock)
    poll, flush, commit = (
        watch.timed(step, lambda seconds=seconds: clock.advance(seconds))
        for step, seconds in (("poll", 0.001), ("flush", 0.006), ("commit", 0.002))
    )
    for n in range(count):
        if n == 1:
            clock.advance(5.0)  # in the warm-up, which is not reported
        before_s = watch.spent("poll")
        poll()
        watch.batch_begins(watch.spent("poll") - before_s)
        flush()
        commit()
        clock.advance(0.001)
    return watch.per_batch_ms()


def test_the_steps_of_a_batch_and_the_rest_add_up():
    steps = batches(WARM_UP + 5)
    assert steps == pytest.approx({"poll": 1.0, "flush": 6.0, "commit": 2.0, "rest": 1.0})


def test_the_warm_up_is_not_reported():
    assert not batches(WARM_UP)


def test_only_the_calls_that_an_object_has_are_measured():
    class Part:
        def flush(self) -> int:
            clock.advance(2.0)
            return 7

    clock, part = Clock(), Part()
    watch = Stopwatch(clock)
    watch.watch(part, {"flush": "flush", "commit": "commit"})
    assert part.flush() == 7
    assert watch.spent("flush") == 2.0


def test_a_stamp_has_the_measurement_and_its_time():
    measurement, created_ns = read_stamp(stamped_value(12, b"xyz"))
    assert measurement == 12
    assert created_ns > 0


@pytest.mark.parametrize("value", [None, b"", b"x", b"1 2", b"one two three", b"-1 2 3"])
def test_a_value_without_a_stamp_belongs_to_no_measurement(value):
    assert read_stamp(value) == (0, 0)


def test_latencies_are_read_by_measurement_without_a_torn_last_row(tmp_path: Path):
    path = tmp_path / "seen"
    path.write_bytes(_ENTRY.pack(1, 10, 15) + _ENTRY.pack(2, 20, 27) + _ENTRY.pack(1, 30, 38)[:-3])
    assert list(read_latencies(path, 1)) == [(10, 15)]
    assert list(read_latencies(path, 2)) == [(20, 27)]


def test_the_spec_of_a_bench_is_encoded_and_decoded_without_loss():
    shift = BenchShift(3, Delivery.TRANSACTIONS, 10, "in", "out", journal=True, eager=False, workers=2)
    spec = BenchSpec(ClientSpec("java", jvm=JvmSpec(Path("j.so"), (), Path("f"))), Path("steps"), (shift,))
    assert decode(BenchSpec, encode(spec)) == spec


def test_an_eager_poll_does_not_wait_for_more_records_than_are_available():
    calls = []

    def poll(max_records: int, timeout_s: float) -> list[int]:
        calls.append((max_records, timeout_s))
        return [7] * min(max_records, 3)

    assert poll_available(poll)(10, 0.2) == [7] * 4
    assert calls == [(1, 0.2), (9, 0.0)]
    assert poll_available(poll)(1, 0.2) == [7]
    assert poll_available(lambda max_records, timeout_s: [])(10, 0.2) == []
