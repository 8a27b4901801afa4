"""merge: two topics into one, in transactions that cover inputs of both; and behind it the balance of each account.

Three debits come for each credit. A worker has partitions of both topics, and what it polls is delivered in one
transaction, whose offsets are of both. Order is promised by input partition: a booking of one topic may stand before
or behind one of the other.
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
    """The n-th debit or credit: the account is the key."""
    body = {"movement": n, "cents": sign * rng.randint(1, 20_000)}
    return FeedRecord(b"account-%d" % rng.randrange(ACCOUNTS), orjson.dumps(body))


def book(record: InputRecord) -> Sequence[Output]:
    """The booking of a movement."""
    moved = orjson.loads(record.value or b"")
    body = {"of": record.topic, "movement": moved["movement"], "cents": moved["cents"]}
    return (Output("bookings", "booking", record.key, orjson.dumps(body)),)


def nothing(_: InputRecord) -> Sequence[Output]:
    """A stage that keeps sums has no output of a single input."""
    return ()


def adds(record: InputRecord) -> Sequence[tuple[bytes, int]]:
    """What a booking adds to its account."""
    return ((record.key or b"", int(orjson.loads(record.value or b"")["cents"])),)


def balance(record: InputRecord) -> int | None:
    """The balance that a record states."""
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
            "balances", ("bookings",), ("balances",), nothing, aggregate=Aggregate("balances", adds, balance)
        ),
    ),
)
