"""square: of each number its square, by a producer for each input partition.

The transactional id is derived from the partition (`numbers-3`), not from the worker: whoever has the partition has
its producer, made when the partition comes and given up when it goes. So the next owner fences the last one by the
id alone, as it was done before KIP-447, when brokers knew nothing of the group that an offset belongs to.
"""

from collections.abc import Sequence
from random import Random

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.policy import Delivery
from workloads.model.workload import Output, Workload, WorkloadStage


def number(rng: Random, n: int) -> FeedRecord:
    """The n-th number: its last two digits are the key."""
    drawn = rng.randrange(1_000_000)
    return FeedRecord(b"%02d" % (drawn % 100), b"%d" % drawn)


def square(record: InputRecord) -> Sequence[Output]:
    """Its square."""
    return (Output("squares", "square", record.key, b"%d" % int(record.value or b"0") ** 2),)


SQUARE = Workload(
    name="square",
    summary="numbers -> squares, by a producer for each input partition",
    feed=(Feed("numbers", number),),
    stages=(WorkloadStage("square", ("numbers",), ("squares",), square, ordered=True),),
    delivery=Delivery.PINNED,
)
