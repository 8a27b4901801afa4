"""Inconsistent offsets: one offset of one partition was seen with different values.

An offset names one record for ever. If two operations saw different values at one offset, the log was truncated and
written again, or two leaders wrote at the same time.

Illegal because the position of a consumer is an offset: all consumers that read from one offset must get the same
record.
Evidence: in an external history, the records that polls received, in operations of any outcome, and the offsets that
sends got in operations that must have committed. In a stored run, the records that any consumer received, the records
of the final read-uncommitted read, and every acknowledgement. Every acknowledgement counts, because a broker
acknowledges a record only after the record has its offset.

    T1  poll x: 1 at offset 4      ok
    T2  poll x: 2 at offset 4      ok      <- inconsistent-offsets

Blind spot: a record that was truncated before any consumer received it, and whose sender did not get its offset.
Reference: Jepsen's Kafka checker, `inconsistent-offsets`; Kingsbury, Redpanda 21.10.1 (2022).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external_tables import ExternalTables
from checkers.findings import MAX_SHOWN, AnomalyWording, Suspect, finding, operations, record, record_position
from checkers.stored.tables import Tables
from harness.common.wording import join_words, printable
from harness.results.example import Example

NAME = "inconsistent-offsets"
SUSPECTS = (Suspect("log_entries", "values_differ"),)


def inconsistent_offsets(tables: Tables) -> DataFrame:
    """Return one row for each offset with several values."""
    final_read = "if(found, struct(value as value, cast(null as bigint) as op), null)"
    acked = "transform(acks, a -> struct(a.value as value, a.op as op))"
    stored = tables.log_entries.where("values_differ").selectExpr(
        "run", "tp", "offset", f"explode(concat(array({final_read}), {acked})) as report"
    )
    delivered = tables.deliveries.where("values_differ").selectExpr(
        "run", "tp", "offset", "struct(value, op) as report"
    )
    positions = (
        stored.unionByName(delivered)
        .where("report.value is not null")
        .groupBy("run", "tp", "offset")
        .agg(
            F.expr("array_sort(collect_set(report.value)) as values"),
            F.expr("collect_set(report.op) as ops"),
        )
    )
    return finding(
        positions,
        NAME,
        order=["tp", "offset"],
        ops="ops",
        place=record_position(),
        records=f"transform(slice(values, 1, {MAX_SHOWN}), v -> {record(value='v')})",
        operations=operations("ops"),
    )


def inconsistent_offsets_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each offset with several values."""
    positions = (
        tables.steps.where("clash")
        .groupBy("run", "key", "offset")
        .agg(F.expr("array_sort(collect_set(value)) as values"), F.expr("collect_set(op) as ops"))
    )
    return finding(
        positions,
        NAME,
        order=["key", "offset"],
        ops="ops",
        place="struct(key as key, offset as offset)",
        records=f"transform(slice(values, 1, {MAX_SHOWN}), v -> struct(key as key, v as value))",
        operations=operations("ops"),
    )


def _sentence(e: Example) -> str:
    where = (e.part("place") or e.first_record).position
    values = [printable(part.get("value"), 60) for part in e.records if part.get("value") is not None]
    return f"{where} was seen with different values" + (f": {join_words(values)}" if values else "")


WORDING = {
    "inconsistent-offsets": AnomalyWording(
        "offset was seen with different values",
        "offsets were seen with different values",
        "An offset names one record for ever. Here clients saw different records at one offset.",
        _sentence,
    ),
}
