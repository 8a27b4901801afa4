"""Stale offset: a worker began below an offset that had been committed before.

The first record that a process was given of a partition, after the partition had been assigned to it, stands
below an offset of the group whose commit had completed ok before the assignment. A poll in which the
partition was also taken away is not judged: it may still hold records of before.

Illegal because whoever takes a partition over begins where the group stands; below it every input was
processed, and will be again.
Evidence: times of assignments, polls and commits, on one clock; what was told to the committer, and that the
offset commit stands in the log as part of a transaction, or was one outside any that returned ok. In a run
without the log of offset commits what was told to the committer is enough.

    W1  poll a@4, send_offsets a->5, commit     ok
    W2  is assigned a
    W2  poll a@4                                ok      <- stale-offset

Blind spot: a worker whose first record stands above the offset, though it began to read below.
Reference: KIP-447, "unstable offset commits"; KAFKA-9346.
"""

from checkers.findings.build import operation, record_place
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example
from harness.results.wording import printable

RULES = (
    Rule(
        "stale-offset",
        "claimed_ranges",
        where="gained_ns is not null and stale.next > first",
        order=["tp", "op"],
        ops="array(op, stale.op)",
        detail={
            "group": "group",
            "input": record_place("tp", "first"),
            "committed": "stale.next",
            "assigned_ns": "gained_ns",
            "reader": "struct(op as op, n as n)",
            "operation": operation("stale.op"),
        },
    ),
)
"""One finding for each beginning."""


def _sentence(e: Example) -> str:
    committed = printable(e.rest.get("committed"))
    return f"{e.reader} began at {e.input}, though {e.operation} had committed up to {committed}"


WORDING = {
    "stale-offset": AnomalyWording(
        "worker began below what was committed",
        "times a worker began below what was committed",
        "A worker took a partition over below an offset whose commit had succeeded before.",
        _sentence,
    ),
}
