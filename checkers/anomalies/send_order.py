"""Order of sends: a producer's records stand in the log in another order than it sent them.

    nonmonotonic-send      what a producer sent stands below what it had sent in an operation before
    int-nonmonotonic-send  what a producer sent stands below what it had sent before in the same operation

`nonmonotonic-send` compares the first record that an operation sent to a key with the last one that the
process had sent to it before, by an ok or info operation. `int-nonmonotonic-send` compares neighbours inside
one operation. `assign` and `subscribe` forget the keys that they do not name. In a stored run what was
acknowledged is compared, of every operation: a broker acknowledges what has its place, and what the process
sends after that stands above it, whatever becomes of the transactions.

Illegal because one producer's records to one partition are written in the order in which they were sent; an
idempotent producer keeps that order through retries.
Evidence: the offsets of the records, told to their sender or to anybody who was given them; in a stored run
to their sender.

    P0  send x=1           ok
    P0  send x=2           ok
    log of x: 2 at offset 4, 1 at offset 5      <- nonmonotonic-send

Blind spot: a record whose offset nobody knows has no place in the order.
Reference: Jepsen's Kafka checker, `nonmonotonic-send`, `int-nonmonotonic-send`.
"""

from pyspark.sql import DataFrame

from checkers.external.jumps import BACK
from checkers.external.tables import INFO, OK, ExternalTables
from checkers.findings.build import jump_findings, operation
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example


def _rule(name: str, inside: str) -> Rule:
    return Rule(
        name,
        "reader_steps",
        where=f"move = 'send-back' and {inside}",
        order=["op", "tp", "n"],
        ops="array(before.op, op)",
        detail={
            "records": "array(struct(tp as tp, before.offset as offset, before.op as op), "
            "struct(tp as tp, offset as offset, op as op))",
            "operations": f"array_distinct(array({operation('before.op')}, {operation()}))",
        },
    )


RULES = (_rule("nonmonotonic-send", "not coalesce(inside, false)"), _rule("int-nonmonotonic-send", "inside"))
"""One finding for each step back; inside an operation, for each partition of it."""


def send_order_external(t: ExternalTables) -> DataFrame:
    """One row for each operation and key, or for each pair of neighbours."""
    return jump_findings(
        t.jumps.where("not polled").where(BACK),
        "case when inside then 'int-nonmonotonic-send' "
        f"when outcome in ({OK}, {INFO}) and not forgotten then 'nonmonotonic-send' end",
    )


def _sentence(e: Example) -> str:
    before, here = e.two_records
    return f"{e.operation} sent {before} first, and what its process sent after it stands at {here}"


WORDING = {
    "nonmonotonic-send": AnomalyWording(
        "record stands below the one that was sent before it",
        "records stand below those that were sent before them",
        "A producer's records stand in the log in another order than it sent them.",
        _sentence,
    ),
    "int-nonmonotonic-send": AnomalyWording(
        "record stands below the one that its operation sent before it",
        "records stand below those that their operations sent before them",
        "The records of one operation stand in the log in another order than it sent them.",
        _sentence,
    ),
}
