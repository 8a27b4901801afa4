"""Precommitted read: a transaction received a record that it had sent itself and not yet committed.

Illegal because a consumer that is promised read committed receives only committed records. The records of its own open
transaction are not committed: Kafka has no read-your-writes.
Evidence: one operation, of any outcome, that sent a record and polled it, and did not ask for uncommitted records. The
order of its steps does not matter. In a stored run, the partition and offset of the acknowledgement identify the
record.

    T1  send x=1, poll x: 1 at offset 4      ok      <- precommitted-read

Blind spot: a record that another transaction received too early. This is a `dirty-read`, and needs the log.
Reference: Jepsen's Kafka checker, `precommitted-read`.
"""

from pyspark.sql import DataFrame

from checkers.external_tables import ExternalTables
from checkers.findings import AnomalyWording, Suspect, finding, operation, record_position
from checkers.stored.tables import Tables
from harness.model.vocabulary import Isolation
from harness.results.example import Example

NAME = "precommitted-read"
SUSPECTS = (Suspect("reader_steps", "move = 'mixed'"),)


def precommitted_read(tables: Tables) -> DataFrame:
    """Return one row for each delivery."""
    mixed = tables.reader_steps.where("move = 'mixed'").select("run", "op", "tp")
    sent = (
        mixed.join(tables.operations, on=["run", "op"], how="inner")
        .selectExpr("run", "op", "tp", "explode(filter(records, r -> r.acked and r.tp = tp)) as record")
        .select("run", "op", "tp", "record.offset")
    )
    return finding(
        tables.polls.where(f"promised = '{Isolation.READ_COMMITTED.value}'")
        .select("run", "op", "tp", "offset")
        .join(sent, on=["run", "op", "tp", "offset"], how="left_semi"),
        NAME,
        order=["op", "tp", "offset"],
        ops="array(op)",
        record=record_position(),
        operation=operation(),
    )


def precommitted_read_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each operation and record."""
    return finding(
        tables.reads.where("own").dropDuplicates(["run", "op", "key", "value"]),
        NAME,
        order=["op", "key", "value"],
        ops="array(op)",
        record="struct(key as key, value as value, offset as offset)",
        operation=operation(),
    )


def _sentence(e: Example) -> str:
    return f"{e.operation} received {e.record}, which it had sent itself"


WORDING = {
    "precommitted-read": AnomalyWording(
        "transaction read a record that it had sent itself",
        "transactions read records that they had sent themselves",
        "A transaction received its own record before it committed. Kafka has no read-your-writes.",
        _sentence,
    ),
}
