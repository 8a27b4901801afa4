"""Aborted read (Adya's G1a): a consumer was given a record whose transaction failed.

A consumer that is promised read committed must never see a record of an aborted transaction. A
transaction counts as aborted here when its client knows so: the commit was never sent, or abort was
asked for; a record that was sent outside any transaction, when its send was refused. An `info` writer is
never evidence; the log may settle it, and then the finding is a `dirty-read`.

Illegal because what was aborted must be as if it had never been written.
Evidence: the writer's outcome, and the delivery to a reader by the isolation that the workload promises
it.

    T1  send x=1, abort          fail
    T2  poll x=1 at offset 0     ok      <- aborted-read

Blind spot: a record that was cut off after it was read, and whose writer is `info`, leaves no other
trace.
Reference: Adya 1999, G1a; Jepsen's Kafka checker, `G1a`; Jepsen on Bufstream 0.1.0 (2024).
"""

from pyspark.sql import DataFrame

from checkers.external.tables import FAIL, OK, ExternalTables
from checkers.findings.build import finding, operation, reader, record
from checkers.findings.rules import Suspect
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.tables import Tables
from harness.model.vocabulary import Isolation
from harness.results.example import Example

NAME = "aborted-read"


ABORTED = "send.told = 'aborted' and (send.transactional or not send.acked)"
SUSPECTS = (
    Suspect("attempts", f"{ABORTED} and exists(places, p -> p.promised)"),
    Suspect(
        "log_entries",
        "promised and (not found or values_differ or internal or value is null and not sentinel)",
    ),
)
"""A delivery of it stands where the record is found, or else where another one is, or one without a name, or none."""


def aborted_read(t: Tables) -> DataFrame:
    """One row for each record and delivery."""
    failed = t.attempts.where(ABORTED).selectExpr("run", "value", "send.op as writer")
    polls = t.polls.where(f"promised = '{Isolation.READ_COMMITTED.value}'")
    return finding(
        polls.join(broadcast(failed), on=["run", "value"], how="inner"),
        NAME,
        order=["tp", "offset", "op", "n"],
        ops="array(writer, op)",
        record=record(),
        operation=operation("writer"),
        reader=reader(),
    )


def aborted_read_external(t: ExternalTables) -> DataFrame:
    """One row for each operation of an external history that was ok and was given such a record."""
    read = t.reads.where(f"outcome = {OK} and writer_outcome = {FAIL}")
    read = read.join(t.uncommitted, on=["run", "op"], how="left_anti")
    return finding(
        read.dropDuplicates(["run", "op", "key", "value"]),
        NAME,
        order=["op", "key", "value"],
        ops="array(writer, op)",
        record="struct(key as key, value as value, offset as offset)",
        operation=operation("writer"),
        reader=operation(),
    )


def _sentence(e: Example) -> str:
    return f"{e.reader} read {e.record}, which {e.operation} wrote and then aborted"


WORDING = {
    "aborted-read": AnomalyWording(
        "record of an aborted transaction was read",
        "records of aborted transactions were read",
        "A consumer that was promised committed records was given one whose transaction failed (Adya's G1a).",
        _sentence,
    ),
}
