"""Order of sends: the records of a producer are in the log in another order than it sent them.

    nonmonotonic-send      a record is below one that its producer sent in an earlier operation
    int-nonmonotonic-send  a record is below one that its producer sent earlier in the same operation

`nonmonotonic-send` compares two records of a key: the first record that an operation sent to it, and the last record
that the process had sent to it before. Only ok and info operations count. `int-nonmonotonic-send` compares neighbours
inside one operation. `assign` and `subscribe` forget the keys that they do not name. A stored run compares acknowledged
records of every operation. The outcome of the transaction does not matter: a broker acknowledges a record when it has
its offset, so what the process sends later must be above it.

Illegal because the records of one producer to one partition are written in the order in which they were sent. An
idempotent producer keeps that order through retries.
Evidence: the offsets of the records, which their sender or a reader got. In a stored run, only those of the sender.

    P0  send x=1           ok
    P0  send x=2           ok
    log of x: 2 at offset 4, 1 at offset 5      <- nonmonotonic-send

Blind spot: a record without a known offset has no place in the order.
Reference: Jepsen's Kafka checker, `nonmonotonic-send`, `int-nonmonotonic-send`.
"""

from pyspark.sql import DataFrame

from checkers.external_tables import BACK, ExternalTables
from checkers.findings import AnomalyWording, Rule, jump_findings, operation
from harness.record.history_form import INFO, OK
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
"""One finding for each step back between operations, and for each operation and partition with a step back inside."""


def send_order_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each operation and key, or for each pair of neighbours."""
    return jump_findings(
        tables.jumps.where("not polled").where(BACK),
        "case when inside then 'int-nonmonotonic-send' "
        f"when outcome in ({OK}, {INFO}) and not forgotten then 'nonmonotonic-send' end",
    )


def _sentence(e: Example) -> str:
    first, second = e.two_records
    return f"{e.operation} sent {first} first, but what its process sent later is {second}"


WORDING = {
    "nonmonotonic-send": AnomalyWording(
        "record is below one that was sent before it",
        "records are below ones that were sent before them",
        "The records of a producer are in the log in another order than it sent them.",
        _sentence,
    ),
    "int-nonmonotonic-send": AnomalyWording(
        "record is below one that its operation sent before it",
        "records are below ones that their operations sent before them",
        "The records of one operation are in the log in another order than it sent them.",
        _sentence,
    ),
}
