"""envelope: letters that use every part of a Kafka record, carried through two stages.

Keys and values can be null or empty. Null and empty are not the same: a null value is a tombstone. Headers have an
order, repeated names, and null or empty values. Time stamps are set by the producer and are out of order. Each stage
keeps all of this, adds one header, and adds one millisecond to the time stamp.
"""

from collections.abc import Sequence
from random import Random

from harness.model.expectation import Feed, FeedRecord, Headers, InputRecord
from workloads.model.workload import HEADERS, NULL_VALUES, Output, Workload, WorkloadStage

FIRST_TIMESTAMP_MS = 1_000_000_000_000
"""A time in the year 2001."""
DAY_MS = 86_400_000
_HEADERS: Sequence[tuple[str, bytes | None]] = (
    ("trace", b"a"),
    ("trace", b"b"),
    ("reply-to", None),
    ("note", b""),
    ("bytes", b"\xff\x00"),
    ("\u00fcber", "stra\u00dfe".encode()),
)


def letter(rng: Random, n: int) -> FeedRecord:
    """Return the n-th letter.

    One key in eight is null, and one in eight is empty. One value in five is null, and one in five is empty.
    """
    key = rng.choice((None, b"", *(b"person-%d" % rng.randrange(200) for _ in range(6))))
    value = rng.choice((None, b"", *(b"letter %d" % n for _ in range(3))))
    headers: Headers = tuple(rng.choices(_HEADERS, k=rng.randrange(5)))
    return FeedRecord(key, value, headers, FIRST_TIMESTAMP_MS + n * 1_000 + rng.randint(-DAY_MS, DAY_MS))


def carry(to: str, output_name: str, record: InputRecord) -> Output:
    """Return the record with one more header and a time stamp one millisecond later."""
    stamp = (output_name, b"%d/%d" % (record.partition, record.offset))
    return Output(
        to, output_name, record.key, record.value, (*record.headers, stamp), record.timestamp_ms + 1
    )


def deliver(record: InputRecord) -> Sequence[Output]:
    """Return the delivered letter, and a receipt for its sender. The receipt sets no time stamp."""
    delivered = carry("delivered", "stamped", record)
    return (delivered, delivered._replace(topic="receipts", output_name="receipt", timestamp_ms=None))


def archive(record: InputRecord) -> Sequence[Output]:
    """Return the archived copy of a delivered letter."""
    return (carry("archive", "archived", record),)


ENVELOPE = Workload(
    name="envelope",
    summary="letters -> delivered + receipts; delivered -> archive: nulls, headers, time stamps",
    feed=(Feed("letters", letter),),
    stages=(
        WorkloadStage("deliver", ("letters",), ("delivered", "receipts"), deliver, ordered=True),
        WorkloadStage("archive", ("delivered",), ("archive",), archive, ordered=True),
    ),
    shapes=frozenset({NULL_VALUES, HEADERS}),
)
