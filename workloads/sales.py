"""sales: totals by region. A worker keeps them in memory, restores them from their topic, and writes them in the
transaction with the offsets.

The first stage writes each sale with its region as key, so that all sales of a region are in one partition. The
second stage keeps the sum of each region. A new sum and the offsets of its sales are in one transaction. So the last
record of a region holds the sum of all sales below the committed offset, each counted once.
"""

from collections.abc import Sequence
from random import Random

import orjson

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.workload import Aggregate, Output, Workload, WorkloadStage

REGIONS = tuple(f"region-{n:02d}" for n in range(24))


def sale(rng: Random, n: int) -> FeedRecord:
    """Return the n-th sale. The shop is the key."""
    body = {"sale": n, "region": rng.choice(REGIONS), "cents": rng.randint(1, 50_000)}
    return FeedRecord(b"shop-%d" % rng.randrange(200), orjson.dumps(body))


def by_region(record: InputRecord) -> Sequence[Output]:
    """Return the sale with its region as key."""
    sale_body = orjson.loads(record.value or b"")
    body = {"sale": sale_body["sale"], "cents": sale_body["cents"]}
    return (Output("by-region", "sale", sale_body["region"].encode(), orjson.dumps(body)),)


def no_outputs(_: InputRecord) -> Sequence[Output]:
    """Return no output: a stage that keeps sums writes none for a single input."""
    return ()


def adds(record: InputRecord) -> Sequence[tuple[bytes, int]]:
    """Return (region, cents): what a sale adds to its region."""
    return ((record.key or b"", int(orjson.loads(record.value or b"")["cents"])),)


def total(record: InputRecord) -> int | None:
    """Return the sum in a record, or None if it has no value."""
    return int(record.value) if record.value else None


SALES = Workload(
    name="sales",
    summary="sales -> by-region -> totals, whose state is restored from their own topic",
    feed=(Feed("sales", sale),),
    stages=(
        WorkloadStage("by-region", ("sales",), ("by-region",), by_region, ordered=True),
        WorkloadStage(
            "totals",
            ("by-region",),
            ("totals",),
            no_outputs,
            aggregate=Aggregate("totals", adds, total),
        ),
    ),
)
