"""sales: totals by region, kept in memory, restored from their own topic, moved with the offsets.

The first stage sets each sale under its region, so that all of a region's come to one partition; the second keeps
the regions' sums. A sum and the offsets of the sales in it stand in one transaction: so the sum of a region's last
record is that of all sales below the committed offset, each once.
"""

from collections.abc import Sequence
from random import Random

import orjson

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.workload import Aggregate, Output, Workload, WorkloadStage

REGIONS = tuple(f"region-{n:02d}" for n in range(24))


def sale(rng: Random, n: int) -> FeedRecord:
    """The n-th sale: the shop is the key."""
    body = {"sale": n, "region": rng.choice(REGIONS), "cents": rng.randint(1, 50_000)}
    return FeedRecord(b"shop-%d" % rng.randrange(200), orjson.dumps(body))


def by_region(record: InputRecord) -> Sequence[Output]:
    """The same sale, under its region."""
    sold = orjson.loads(record.value or b"")
    body = {"sale": sold["sale"], "cents": sold["cents"]}
    return (Output("by-region", "sale", sold["region"].encode(), orjson.dumps(body)),)


def nothing(_: InputRecord) -> Sequence[Output]:
    """A stage that keeps sums has no output of a single input."""
    return ()


def adds(record: InputRecord) -> Sequence[tuple[bytes, int]]:
    """What a sale adds to its region."""
    return ((record.key or b"", int(orjson.loads(record.value or b"")["cents"])),)


def total(record: InputRecord) -> int | None:
    """The sum that a record states."""
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
            nothing,
            aggregate=Aggregate("totals", adds, total),
        ),
    ),
)
