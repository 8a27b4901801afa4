"""Duplicate: one value is stored at more than one offset.

A value names one attempt to send. If the logs hold it twice, a client or a broker wrote one attempt twice. An
idempotent producer prevents this. Records of the feeder are exempt: if it repeats an input, there are two inputs, and
the pipeline must process each of them once.

Illegal because every reader of the topic reads the record twice, whatever the transactions say.
Evidence: the final read, which found one value at two positions. In an external history: the offsets at which polls
received the value, and those that its sends got in operations that must have committed.

    T1  send x=1            info
    final read of x: 1 at offset 4
    final read of x: 1 at offset 6          <- duplicate

Blind spot: a repeated attempt has another value. Then the finding is a `reprocessed-input`.
Reference: Jepsen's Kafka checker, `duplicate`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external_tables import ExternalTables
from checkers.findings import MAX_SHOWN, AnomalyWording, Rule, finding, operation, operations, record
from checkers.spark.frames import broadcast
from harness.common.wording import join_words, printable
from harness.model.vocabulary import Role
from harness.results.example import Example

NAME = "duplicate"
# A pipeline may forward the header that names an attempt, so the name counts only in the topic of the send.
OWN = "filter(positions, p -> send is null or p.topic = send.topic)"
POSITIONS = f"array_sort(array_distinct(transform({OWN}, p -> struct(p.tp as tp, p.offset as offset))))"

RULES = (
    Rule(
        NAME,
        "attempts",
        where=f"size(positions) > 1 and value is not null and not (send.role <=> '{Role.FEEDER.value}') "
        f"and size({POSITIONS}) > 1",
        order=[f"{POSITIONS}[0].tp", f"{POSITIONS}[0].offset"],
        ops="array(send.op)",
        detail={
            "value": "value",
            "operation": operation("send.op"),
            "records": f"transform(slice({POSITIONS}, 1, {MAX_SHOWN}), p -> {record('p.tp', 'p.offset')})",
        },
    ),
)
"""One finding for each value that has several positions."""


def duplicate_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each record of an external history that has several offsets."""
    several = tables.attempts.where("lowest < highest").select("run", "key", "value")
    positions = (
        tables.steps.join(broadcast(several), on=["run", "key", "value"], how="inner")
        .groupBy("run", "key", "value")
        .agg(F.expr("array_sort(collect_set(offset)) as offsets"), F.expr("collect_set(op) as ops"))
    )
    return finding(
        positions,
        NAME,
        order=["key", "value"],
        ops="ops",
        record="struct(key as key, value as value)",
        offsets=f"slice(offsets, 1, {MAX_SHOWN})",
        operations=operations("ops"),
    )


def _sentence(e: Example) -> str:
    positions = e.rest.get("offsets")
    where = [part.position for part in e.records] or (
        [f"offset {printable(offset, 30)}" for offset in positions] if isinstance(positions, list) else []
    )
    value = e.first_record.facts.get("value", e.rest.get("value"))
    what = "a value" if value is None else printable(value, 60)
    positions = join_words(where) if where else "more than one offset"
    return f"{e.operation} sent {what} once, but it is stored at {positions}"


WORDING = {
    "duplicate": AnomalyWording(
        "value is stored more than once",
        "values are stored more than once",
        "A value names one attempt to send. Here one value is stored at more than one offset.",
        _sentence,
    ),
}
