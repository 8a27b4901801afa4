"""Lost write: a record that was acknowledged is not at its offset.

There are two rules. First: the final read-committed reader read beyond the record's offset and did not receive it,
though its transaction committed or it was sent outside any transaction. Second: the log does not hold the acknowledged
(partition, offset), or holds another value there. The second rule applies to aborted transactions too.

An external history names neither a final reader nor a log. There a record is lost if three conditions are true. Its
operation must have committed. No ok operation received it. And an ok operation received a record at the same or a
higher index of its key. The index counts the known offsets of a key, without gaps. If a value has several offsets, the
highest one counts.

Illegal because an acknowledgement with acks=all promises that the record outlives every tolerated fault.
Evidence: the acknowledgement (partition and offset), and the final read or the leader's log. Three things prove
nothing: a compacted partition, an offset below the start of the log or of the read, and a partition whose reader did
not reach the offset.

    T1  send x=1, ok at offset 4, commit     ok
    T2  send x=2, ok at offset 5, commit     ok
    final read of x: 2 at offset 5                  <- lost-write of 1

Without journals: two kinds of records are checked. First, the inputs, which the run itself has written. Second, records
without a header that names their attempt: such a record is lost if it is committed in the log and the final
read-committed reader did not receive it.

Blind spot: a lost record without an acknowledgement that named its offset.
Reference: Jepsen's Kafka checker, `lost-write`; Jepsen on Redpanda 21.10.1 (2022) and Bufstream 0.1.0 (2024).
"""

from pyspark.sql import DataFrame

from checkers.external_tables import LOST, ExternalTables
from checkers.findings import AnomalyWording, Rule, finding, operation, record
from harness.common.wording import printable
from harness.results.example import Example

NAME = "lost-write"
GONE = "(element.covered and not element.held)"
UNREAD = "(settled = 'committed' and element.passed and not element.delivered)"

RULES = (
    Rule(
        NAME,
        "operations",
        elements="records",
        where=f"{UNREAD} or {GONE}",
        order=["element.tp", "element.offset", "op"],
        ops="array(op)",
        absence=f"not ({GONE} and element.other)",
        detail={
            "record": record("element.tp", "element.offset", "element.value"),
            "operation": operation(),
            "log_holds": "if(element.logged, case when element.held then 'it' when element.other then 'another value' "
            "else 'nothing' end, null)",
            "finally_read": "if(element.passed, element.delivered, null)",
        },
    ),
    Rule(
        NAME,
        "log_entries",
        where="found and value is null and visible and held and passed and not delivered "
        "and not internal and not sentinel",
        order=["tp", "offset"],
        absence="true",
        detail={"record": record(), "log_holds": "'it'", "finally_read": "false"},
    ),
)
"""One finding for each acknowledged record that is gone, and for each unnamed committed record that was not read."""


def lost_write_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each committed record of an external history that ok reads passed and did not receive.

    A read passes a record if it received a record of the same key whose index is not below the highest index of that
    record.
    """
    return finding(
        tables.attempts.where(LOST),
        NAME,
        order=["key", "value"],
        ops="array(writer)",
        absence="true",
        record="struct(key as key, value as value, lowest_offset as offset)",
        operation=operation("writer"),
        read_beyond="struct(passer as op, key as key, passer_value as value, passer_offset as offset)",
    )


def _sentence(e: Example) -> str:
    holds = e.rest.get("log_holds")
    if holds is not None and holds != "it":
        instead = f"the log holds {printable(holds, 60)} there"
    elif e.rest.get("finally_read") is False:
        instead = "the final reader read past it and did not receive it"
    else:
        instead = "it is not there"
    if not e.operations:
        return f"{e.record} is committed, but {instead}"
    return f"{e.record} was acknowledged to {e.operation}, but {instead}"


WORDING = {
    "lost-write": AnomalyWording(
        "acknowledged record was lost",
        "acknowledged records were lost",
        "A record was acknowledged, but the log does not hold it, or the final reader read past its offset and did not "
        "receive it.",
        _sentence,
    ),
}
