"""Stale offset: a worker began below an offset that had been committed before.

A partition was assigned to a process. The first record that the process received of it is below an offset of the group
whose commit completed ok before the assignment. A poll is not checked if the partition was also revoked during it,
because such a poll may still hold older records.

Illegal because a process that takes over a partition begins at the committed offset of the group. All inputs below it
were processed, and will be processed again.
Evidence: the times of assignments, polls and commits, on one clock, and two facts of the commit. First, its client got
the answer ok. Second, the log has the offset commit as part of a transaction, or the offset commit was outside any
transaction. In a run without the log of offset commits, the first fact is enough.

    W1  poll a@4, send_offsets a->5, commit     ok
    W2  is assigned a
    W2  poll a@4                                ok      <- stale-offset

Blind spot: a worker whose first record is above the offset, though it began to read below.
Reference: KIP-447, "unstable offset commits"; KAFKA-9346.
"""

from checkers.findings import AnomalyWording, Rule, operation, record_position
from harness.common.wording import printable
from harness.results.example import Example

RULES = (
    Rule(
        "stale-offset",
        "claimed_ranges",
        where="gained_ns is not null and stale.next > first",
        order=["tp", "op"],
        ops="array(op, stale.op)",
        detail={
            "group": "group",
            "input": record_position("tp", "first"),
            "committed": "stale.next",
            "assigned_ns": "gained_ns",
            "reader": "struct(op as op, n as n)",
            "operation": operation("stale.op"),
        },
    ),
)
"""One finding for each first record after an assignment."""


def _sentence(e: Example) -> str:
    committed = printable(e.rest.get("committed"))
    return f"{e.reader} began at {e.input}, but {e.operation} had already committed up to {committed}"


WORDING = {
    "stale-offset": AnomalyWording(
        "worker began below the committed offset",
        "times a worker began below the committed offset",
        "A worker took over a partition and began below an offset whose commit had already succeeded.",
        _sentence,
    ),
}
