"""Unseen: a record that was acknowledged and committed was never delivered to anybody.

The final read-committed reader came to the end of its partition (of every partition of its topic, if
its offset is not known), and neither it nor anybody else was given the record. In an external history,
which names no final reader: an operation that was ok sent it, and none that was ok was given it. Where
nothing at all was read that proves nothing, nor does what is missing from a compacted partition, or below the
start of its log.

Illegal because a committed record is there to be read.
Evidence: the completion `ok`, and a final reader that met its sentinel: a partition that is stuck
behind a hanging transaction proves nothing.

    T1  send x=1, ok without an offset     ok
    final read of x: 2, sentinel                  <- unseen: 1
    poll of x: 2                                  ok

Without journals: of the inputs alone, which the run itself has written.

Blind spot: an `info` write may be gone without a trace.
Reference: Jepsen's Kafka checker, `unseen`.
"""

from pyspark.sql import DataFrame

from checkers.external.tables import ExternalTables
from checkers.findings.build import finding, operation, record
from checkers.findings.rules import Suspect
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.tables import Tables
from harness.results.example import Example

NAME = "unseen"
UNPOLLED = (
    "send.acked and send.told = 'committed' and not coalesce(array_contains(places.polled, true), false)"
)
SUSPECTS = (Suspect("attempts", UNPOLLED),)


def unseen(t: Tables) -> DataFrame:
    """One row for each record."""
    acked = t.attempts.where(UNPOLLED).select("run", "value", "send", "send.topic", "send.tp")
    ends = t.tps.select("run", "tp", "rc_end", "rc_first", "compacted")
    found = (
        acked.join(broadcast(ends), on=["run", "tp"], how="left")
        .join(broadcast(t.topics), on=["run", "topic"], how="left")
        .where(
            "if(tp is not null, rc_end and not compacted and coalesce(send.offset, 0) >= rc_first, "
            "topic_rc_end and topic_whole)"
        )
    )
    seen = t.polls.select("run", "value").join(
        broadcast(found.select("run", "value")), on=["run", "value"], how="left_semi"
    )
    found = found.join(broadcast(seen.distinct()), on=["run", "value"], how="left_anti")
    return finding(
        found,
        NAME,
        order=["tp", "send.offset", "send.op"],
        ops="array(send.op)",
        absence="true",
        record=record("tp", "send.offset"),
        operation=operation("send.op"),
    )


def unseen_external(t: ExternalTables) -> DataFrame:
    """One row for each record of an external history that an ok operation sent and none was given."""
    return finding(
        t.attempts.where("ok_sent and not ok_read"),
        NAME,
        order=["key", "value"],
        ops="array(writer)",
        absence="true",
        record="struct(key as key, value as value, lowest_offset as offset)",
        operation=operation("writer"),
    )


def _sentence(e: Example) -> str:
    return f"{e.record} was acknowledged to {e.operation}, and no reader that came past it was given it"


WORDING = {
    "unseen": AnomalyWording(
        "acknowledged record was never delivered",
        "acknowledged records were never delivered",
        "Readers came to the end, and none of them was ever given this acknowledged record.",
        _sentence,
    ),
}
