"""Aborted read (Adya's G1a): a consumer received a record of a transaction that failed.

A consumer that is promised read committed must never receive a record of an aborted transaction. Here a transaction
counts as aborted if its client knows that: the client never sent the commit, or it requested an abort. A record that
was sent outside any transaction counts if its send was refused. A writer with the outcome `info` is never evidence. If
the broker log says that the record of such a writer is aborted, the finding is a `dirty-read`.

Illegal because an aborted transaction must be as if it had never written anything.
Evidence: the outcome of the writer, and the delivery to a reader. The isolation level of a reader is the one that the
workload promises, not the setting of the consumer.

    T1  send x=1, abort          fail
    T2  poll x=1 at offset 0     ok      <- aborted-read

Blind spot: a record of an `info` writer that was read and then truncated from the log. It leaves no other trace.
Reference: Adya 1999, G1a; Jepsen's Kafka checker, `G1a`; Jepsen on Bufstream 0.1.0 (2024).
"""

from pyspark.sql import DataFrame

from checkers.external_tables import ExternalTables
from checkers.findings import AnomalyWording, Suspect, finding, operation, reader, record
from checkers.spark.frames import broadcast
from checkers.stored.tables import Tables
from harness.model.vocabulary import Isolation
from harness.record.history_form import FAIL, OK
from harness.results.example import Example

NAME = "aborted-read"
ABORTED = "send.reported_end = 'aborted' and (send.transactional or not send.acked)"
SUSPECTS = (
    Suspect("attempts", f"{ABORTED} and exists(positions, p -> p.promised)"),
    Suspect(
        "log_entries",
        "promised and (not found or values_differ or internal or value is null and not sentinel)",
    ),
)
"""An aborted record that was delivered has a position in `attempts` if the final reader received it there. If not, the
final reader received nothing at its offset, or another value, or a record without a value.
"""


def aborted_read(tables: Tables) -> DataFrame:
    """Return one row for each record and delivery."""
    failed = tables.attempts.where(ABORTED).selectExpr("run", "value", "send.op as writer")
    polls = tables.polls.where(f"promised = '{Isolation.READ_COMMITTED.value}'")
    return finding(
        polls.join(broadcast(failed), on=["run", "value"], how="inner"),
        NAME,
        order=["tp", "offset", "op", "n"],
        ops="array(writer, op)",
        record=record(),
        operation=operation("writer"),
        reader=reader(),
    )


def aborted_read_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each ok operation of an external history and aborted record that it received."""
    read = tables.reads.where(f"outcome = {OK} and writer_outcome = {FAIL}")
    read = read.join(tables.uncommitted, on=["run", "op"], how="left_anti")
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
        "A consumer that is promised read committed received a record of a transaction that failed (Adya's G1a).",
        _sentence,
    ),
}
