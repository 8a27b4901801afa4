"""merge: two input topics written to one, in transactions that cover both; a second stage keeps account balances.

There are three debits for each credit. A worker has partitions of both topics, and one transaction holds the outputs
and offsets of all inputs of one poll. Order is promised only within an input partition: bookings of the two topics
can appear in any order.
"""

from collections.abc import Sequence
from functools import partial
from random import Random

import orjson

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.workload import Aggregate, Output, Workload, WorkloadStage

ACCOUNTS = 120
DEBITS, CREDITS = "debits", "credits"


def movement(sign: int, rng: Random, n: int) -> FeedRecord:
    """Return the n-th debit or credit. The account is the key."""
    body = {"movement": n, "cents": sign * rng.randint(1, 20_000)}
    return FeedRecord(b"account-%d" % rng.randrange(ACCOUNTS), orjson.dumps(body))


def book(record: InputRecord) -> Sequence[Output]:
    """Return the booking of a movement."""
    movement_body = orjson.loads(record.value or b"")
    body = {"of": record.topic, "movement": movement_body["movement"], "cents": movement_body["cents"]}
    return (Output("bookings", "booking", record.key, orjson.dumps(body)),)


def no_outputs(_: InputRecord) -> Sequence[Output]:
    """Return no output: a stage that keeps sums writes none for a single input."""
    return ()


def adds(record: InputRecord) -> Sequence[tuple[bytes, int]]:
    """Return (account, cents): what a booking adds to the balance of its account."""
    return ((record.key or b"", int(orjson.loads(record.value or b"")["cents"])),)


def balance(record: InputRecord) -> int | None:
    """Return the balance in a record, or None if it has no value."""
    return int(record.value) if record.value else None


MERGE = Workload(
    name="merge",
    summary="debits + credits -> bookings, in transactions over both; bookings -> balances",
    feed=(
        Feed(DEBITS, partial(movement, -1), share=0.75),
        Feed(CREDITS, partial(movement, 1), share=0.25),
    ),
    stages=(
        WorkloadStage("book", (DEBITS, CREDITS), ("bookings",), book, ordered=True),
        WorkloadStage(
            "balances",
            ("bookings",),
            ("balances",),
            no_outputs,
            aggregate=Aggregate("balances", adds, balance),
        ),
    ),
)
