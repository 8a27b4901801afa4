"""envelope: letters with all that a record can have, carried through two stages.

Keys and values that are null or empty, which is not the same: a null value is a tombstone. Headers in their order,
with repeated names, null and empty contents. Time stamps of the producer's own, out of order. Each stage carries all
of it on, adds a header, and moves the time stamp by a millisecond.
"""

from collections.abc import Sequence
from random import Random

from harness.model.expectation import Feed, FeedRecord, Headers, InputRecord
from workloads.model.workload import HEADERS, NULL_VALUES, Output, Workload, WorkloadStage

BEGINNING_MS = 1_000_000_000_000
"""The first time stamp: in 2001."""
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
    """The n-th letter. One key in eight is null, and one is empty; so is one value in five each."""
    key = rng.choice((None, b"", *(b"person-%d" % rng.randrange(200) for _ in range(6))))
    value = rng.choice((None, b"", *(b"letter %d" % n for _ in range(3))))
    headers: Headers = tuple(rng.choices(_HEADERS, k=rng.randrange(5)))
    return FeedRecord(key, value, headers, BEGINNING_MS + n * 1_000 + rng.randint(-DAY_MS, DAY_MS))


def carry(to: str, output_name: str, record: InputRecord) -> Output:
    """The same record with a header more, a millisecond later."""
    stamp = (output_name, b"%d/%d" % (record.partition, record.offset))
    return Output(
        to, output_name, record.key, record.value, (*record.headers, stamp), record.timestamp_ms + 1
    )


def deliver(record: InputRecord) -> Sequence[Output]:
    """The letter as it came; and who has sent it knows it by a receipt, without a time stamp of its own."""
    delivered = carry("delivered", "stamped", record)
    return (delivered, delivered._replace(topic="receipts", output_name="receipt", timestamp_ms=None))


def archive(record: InputRecord) -> Sequence[Output]:
    """The letter once more."""
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
