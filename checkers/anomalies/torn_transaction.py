"""Torn transaction: the parts of one transaction do not share one fate.

With broker logs: some acknowledged records of the transaction are committed, and some are aborted. `open` counts as a
third fate if the record belongs to a hanging transaction (see `hanging-transaction`). A transaction is also torn if a
part of it was committed before the rest was written: two of its records in one partition have different markers, or its
parts belong to two transactions of the transaction log.

The broker logs are also compared with the transaction log. Each completion in the transaction log is one transaction.
Its records and offset commits are found by the markers of its producer in each partition, and every marker must say
what the transaction log says.

Without broker logs: the transaction is known to have committed. The final reader received one of its values, and read
past the known offset of another one without receiving it. In an external history: an ok operation received one of its
records, and another one is a `lost-write`.

Illegal because a transaction is atomic: all of it takes effect, or nothing.
Evidence: the acknowledgements, and for each of them the first marker of its producer above it in the leader's log.

    T1  send x=1, send y=2, commit     ok
    log of x: 1 at offset 4, commit at offset 5
    log of y: 2 at offset 7, abort at offset 8      <- torn-transaction

Without journals: the comparison with the transaction log is the only evidence.

Not this anomaly: here the types of markers are compared, commit or abort. Their epochs, and those of the records below
them, are compared by `zombie-write`.

Blind spot: a producer whose markers in a partition cannot be paired with the completions in the transaction log. Then
the run is unknown.
Reference: KAFKA-17754; Jepsen on Bufstream 0.1.0 (2024).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external_tables import LOST, ExternalTables
from checkers.findings import (
    LOG_TRANSACTION_OPS,
    MAX_SHOWN,
    AnomalyWording,
    Rule,
    finding,
    join_shown,
    log_transaction,
    operation,
    record,
    record_position,
)
from checkers.stored.log_transactions import transactions_of_operations
from checkers.stored.tables import Tables
from harness.common.wording import printable
from harness.results.example import Example, describe_fate

NAME = "torn-transaction"
IN_TWO = "a marker is between its records"
IN_SEVERAL = "the transaction log has it as several transactions"
SEEN = """array_distinct(transform(filter(records,
    r -> r.acked and r.effect is not null and (r.effect != 'open' or r.abandoned)), r -> r.effect))"""
HALF_READ = """(settled = 'committed' and exists(records, r -> not r.logged and r.delivered)
    and exists(records, r -> not r.logged and r.passed and not r.delivered))"""

MARKED = "filter(records, r -> r.marker_offset is not null)"
SPLIT = f"""(array_contains(records.effect, 'commit') and size(records) > 1
    and size(array_distinct(transform({MARKED}, r -> struct(r.tp, r.marker_offset))))
    > size(array_distinct(transform({MARKED}, r -> r.tp))))"""
"""Two records of one partition have different markers, and at least one record is committed."""
EFFECTS = "array_distinct(concat(records.effect, commits.effect))"
"""The fates of all records and offset commits of one transaction of the transaction log."""
UNACKED = """(size(array_distinct(records.effect)) > 1
    and size(array_distinct(transform(filter(records, r -> r.op is not null), r -> r.effect))) <= 1)"""
"""The fates of its records differ, but those of acknowledged records do not, so the rule over operations misses it."""
OTHERWISE = f"(size({EFFECTS}) = 1 and {EFFECTS}[0] != decided)"
"""Its markers agree with each other, but not with the transaction log."""

RULES = (
    Rule(
        NAME,
        "operations",
        where=f"transactional and (size({SEEN}) > 1 or {HALF_READ})",
        order=["op"],
        ops="array(op)",
        absence=f"(size({SEEN}) <= 1)",
        detail={
            "operation": operation(),
            "fates": SEEN,
            "records": f"transform(slice(filter(records, r -> r.acked), 1, {MAX_SHOWN}), "
            "r -> struct(r.tp as tp, r.offset as offset, r.value as value, r.delivered as given))",
        },
    ),
    Rule(
        NAME,
        "operations",
        where=f"transactional and {SPLIT} and size({SEEN}) <= 1 and not {HALF_READ}",
        order=["op"],
        ops="array(op)",
        detail={
            "operation": operation(),
            "why": f"'{IN_TWO}'",
            "records": f"transform(slice({MARKED}, 1, {MAX_SHOWN}), r -> {record('r.tp', 'r.offset', 'r.value')})",
        },
    ),
    Rule(
        NAME,
        "log_transactions",
        where=f"if(journaled, {OTHERWISE} or {UNACKED}, size({EFFECTS}) > 1 or {OTHERWISE})",
        order=["log_tp", "log_offset"],
        ops=LOG_TRANSACTION_OPS,
        detail={
            "operation": log_transaction(),
            "decided": f"if({OTHERWISE}, decided, null)",
            "fates": EFFECTS,
            "records": f"transform(slice(records, 1, {MAX_SHOWN}), r -> {record_position('r.tp', 'r.offset')})",
        },
    ),
)
"""One finding for each transaction."""


def torn_transaction(tables: Tables) -> DataFrame:
    """Return one row for each operation whose parts belong to several transactions of the transaction log."""
    torn = (
        transactions_of_operations(tables.operations, tables.markers)
        .groupBy("run", "op", "log_tp", "log_offset")
        .agg(F.expr("any_value(decided) as decided"), F.expr("collect_set(tp) as tps"))
        .groupBy("run", "op")
        .agg(
            F.expr("count(1) as transactions"),
            F.expr("array_sort(collect_set(decided)) as decided"),
            F.expr("flatten(collect_list(tps)) as tps"),
            F.expr(
                f"slice(array_sort(collect_list(struct(log_tp as tp, log_offset as offset))), 1, {MAX_SHOWN}) as log"
            ),
        )
        # The rule over operations finds two transactions in one partition, and different fates.
        .where("transactions > 1 and decided = array('commit') and size(array_distinct(tps)) = size(tps)")
    )
    return finding(
        torn,
        NAME,
        order=["op"],
        ops="array(op)",
        operation=operation(),
        why=f"'{IN_SEVERAL}'",
        completions="log",
    )


def torn_transaction_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each transaction of an external history of which only a part was read.

    An ok operation received one of its records, and another one is lost though its offset is known.
    """
    lost = (
        tables.attempts.where(LOST)
        .groupBy("run", F.col("writer").alias("op"))
        .agg(F.expr("array_sort(collect_set(struct(key, value, lowest_offset as offset))) as unread"))
    )
    read = tables.siblings.groupBy("run", "op").agg(
        F.expr("array_sort(collect_set(struct(key, value, offset))) as read")
    )
    return finding(
        read.join(lost, on=["run", "op"], how="inner"),
        NAME,
        order=["op"],
        ops="array(op)",
        absence="true",
        operation=operation(),
        read=f"slice(read, 1, {MAX_SHOWN})",
        unread=f"slice(unread, 1, {MAX_SHOWN})",
    )


def _sentence(e: Example) -> str:
    if (why := e.rest.get("why")) is not None:
        positions = join_shown([part.position for part in e.records]) if e.records else ""
        return f"{e.operation} was one transaction, but {printable(why, 100)}" + (
            f": {positions}" if positions else ""
        )
    fates = [f"{part.position} is {part.fate}" for part in e.records if part.get("fate") is not None]
    names = e.rest.get("fates")
    if not fates and isinstance(names, list):
        fates = [f"some of its records are {describe_fate(name)}" for name in names]
    parts = join_shown(fates) if fates else "its records do not share one fate"
    if (decided := e.rest.get("decided")) is not None:
        decision = describe_fate(decided)
        parts = f"the transaction log says that it is {decision}, but {parts}"
    return f"{e.operation} was one transaction, but {parts}"


WORDING = {
    "torn-transaction": AnomalyWording(
        "transaction has parts with different fates",
        "transactions have parts with different fates",
        "The records of one transaction must all be committed or all be aborted. These were not.",
        _sentence,
    ),
}
