"""square: the square of each number, with one producer for each input partition.

The transactional id is derived from the partition (`numbers-3`), not from the worker. A worker creates the producer
of a partition when it gains the partition, and closes it when it loses the partition. So the
transactional id alone is enough for the next owner to fence the last one. Programs worked like this before KIP-447,
when a transaction did not tell the broker the consumer's membership in its group.
"""

from collections.abc import Sequence
from random import Random

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.policy import Delivery
from workloads.model.workload import Output, Workload, WorkloadStage


def number(rng: Random, n: int) -> FeedRecord:
    """Return the n-th number. Its last two digits are the key."""
    value = rng.randrange(1_000_000)
    return FeedRecord(b"%02d" % (value % 100), b"%d" % value)


def square(record: InputRecord) -> Sequence[Output]:
    """Return the square of a number."""
    return (Output("squares", "square", record.key, b"%d" % int(record.value or b"0") ** 2),)


SQUARE = Workload(
    name="square",
    summary="numbers -> squares, by a producer for each input partition",
    feed=(Feed("numbers", number),),
    stages=(WorkloadStage("square", ("numbers",), ("squares",), square, ordered=True),),
    delivery=Delivery.PINNED,
)
