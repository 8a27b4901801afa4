"""Unseen: a record that was acknowledged and committed was never delivered to any reader.

The final read-committed reader came to the end of the record's partition, and neither it nor any other reader received
the record. If the offset of the record is not known, the reader must have come to the end of every partition of the
topic. An external history names no final reader: there an ok operation sent the record, and no ok operation received
it. Three things prove nothing: a history in which nothing was read, a compacted partition, and an offset below the
start of the log.

Illegal because a committed record must be readable.
Evidence: the completion `ok`, and a final reader that met its sentinel. A partition that is stuck behind a hanging
transaction proves nothing.

    T1  send x=1, ok without an offset     ok
    final read of x: 2, sentinel                  <- unseen: 1
    poll of x: 2                                  ok

Without journals: only the inputs are checked, which the run itself has written.

Blind spot: the write of an `info` operation may be lost without a trace.
Reference: Jepsen's Kafka checker, `unseen`.
"""

from pyspark.sql import DataFrame

from checkers.external_tables import ExternalTables
from checkers.findings import AnomalyWording, Suspect, finding, operation, record
from checkers.spark.frames import broadcast
from checkers.stored.tables import Tables
from harness.results.example import Example

NAME = "unseen"
UNPOLLED = """send.acked and send.reported_end = 'committed'
    and not coalesce(array_contains(positions.polled, true), false)"""
SUSPECTS = (Suspect("attempts", UNPOLLED),)


def unseen(tables: Tables) -> DataFrame:
    """Return one row for each record."""
    acked = tables.attempts.where(UNPOLLED).select("run", "value", "send", "send.topic", "send.tp")
    ends = tables.tps.select("run", "tp", "rc_end", "rc_first", "compacted")
    missing = (
        acked.join(broadcast(ends), on=["run", "tp"], how="left")
        .join(broadcast(tables.topics), on=["run", "topic"], how="left")
        .where(
            "if(tp is not null, rc_end and not compacted and coalesce(send.offset, 0) >= rc_first, "
            "topic_rc_end and topic_whole)"
        )
    )
    polled = tables.polls.select("run", "value").join(
        broadcast(missing.select("run", "value")), on=["run", "value"], how="left_semi"
    )
    return finding(
        missing.join(broadcast(polled.distinct()), on=["run", "value"], how="left_anti"),
        NAME,
        order=["tp", "send.offset", "send.op"],
        ops="array(send.op)",
        absence="true",
        record=record("tp", "send.offset"),
        operation=operation("send.op"),
    )


def unseen_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each record of an external history that an ok operation sent and none received."""
    return finding(
        tables.attempts.where("ok_sent and not ok_read"),
        NAME,
        order=["key", "value"],
        ops="array(writer)",
        absence="true",
        record="struct(key as key, value as value, lowest_offset as offset)",
        operation=operation("writer"),
    )


def _sentence(e: Example) -> str:
    return f"{e.record} was acknowledged to {e.operation}, but readers read to the end and did not receive it"


WORDING = {
    "unseen": AnomalyWording(
        "acknowledged record was never delivered",
        "acknowledged records were never delivered",
        "Readers read to the end, but none of them received this acknowledged record.",
        _sentence,
    ),
}
