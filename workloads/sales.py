"""sales: totals by region, kept in memory, restored from their own topic, moved with the offsets.

The first stage sets each sale under its region, so that all of a region's come to one partition; the second keeps
the regions' sums. A sum and the offsets of the sales in it stand in one transaction: so the sum of a region's last
record is that of all sales below the committed offset, each once.
"""

from collections.abc import Sequence
from random import Random

import orjson

from harness.expectation import Fed, Feed, Input
from workloads.model.workload import Aggregate, Output, Stage, Workload

REGIONS = tuple(f"region-{n:02d}" for n in range(24))


def sale(rng: Random, n: int) -> Fed:
    """The n-th sale: the shop is the key."""
    body = {"sale": n, "region": rng.choice(REGIONS), "cents": rng.randint(1, 50_000)}
    return Fed(b"shop-%d" % rng.randrange(200), orjson.dumps(body))


def by_region(record: Input) -> Sequence[Output]:
    """The same sale, under its region."""
    sold = orjson.loads(record.value or b"")
    body = {"sale": sold["sale"], "cents": sold["cents"]}
    return (Output("by-region", "sale", sold["region"].encode(), orjson.dumps(body)),)


def nothing(_: Input) -> Sequence[Output]:
    """A stage that keeps sums has no output of a single input."""
    return ()


def adds(record: Input) -> Sequence[tuple[bytes, int]]:
    """What a sale adds to its region."""
    return ((record.key or b"", int(orjson.loads(record.value or b"")["cents"])),)


def total(record: Input) -> int | None:
    """The sum that a record states."""
    return int(record.value) if record.value else None


SALES = Workload(
    name="sales",
    summary="sales -> by-region -> totals, whose state is restored from their own topic",
    feed=(Feed("sales", sale),),
    stages=(
        Stage("by-region", ("sales",), ("by-region",), by_region, ordered=True),
        Stage(
            "totals",
            ("by-region",),
            ("totals",),
            nothing,
            aggregate=Aggregate("totals", adds, total),
        ),
    ),
)
