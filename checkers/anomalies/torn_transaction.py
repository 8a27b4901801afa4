"""Torn transaction: the records of one transaction do not share one fate.

With the brokers' logs: of its acknowledged records some are committed and some aborted; `open` counts
as a third fate once the transaction log no longer lists the partition as under way. Without logs: the
transaction is known to have committed, one of its values was finally read, and another, whose offset is
known and was passed by the final reader, was not. In an external history: one of its records was given
to an operation that was ok, and another is a `lost-write`.

Illegal because atomicity is what a transaction is: all of it takes effect, or nothing.
Evidence: the acknowledgements, and for each the first marker of its producer above it in the leader's
log.

    T1  send x=1, send y=2, commit     ok
    log of x: 1 at offset 4, commit at offset 5
    log of y: 2 at offset 7, abort at offset 8      <- torn-transaction

Without journals: a transaction is what the transaction log completes at once; its records and offset commits
are told by the markers of its producer in each partition, and all of them must say what that log says.

Blind spot: records that were never acknowledged.
Reference: KAFKA-17754; Jepsen on Bufstream 0.1.0 (2024).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external.records import LOST
from checkers.external.tables import ExternalTables
from checkers.findings.build import SHOWN, SPAN_OPS, finding, operation, place, span
from checkers.findings.rules import Rule
from checkers.findings.told import Told
from harness.telling.example import FATES, Example, fate, named_place
from harness.telling.words import listed, printable

NAME = "torn-transaction"
SEEN = """array_distinct(transform(filter(records,
    r -> r.acked and r.effect is not null and (r.effect != 'open' or r.abandoned)), r -> r.effect))"""
HALF_READ = """(settled = 'committed' and exists(records, r -> not r.logged and r.given)
    and exists(records, r -> not r.logged and r.passed and not r.given))"""

EFFECTS = "array_distinct(concat(records.effect, commits.effect))"
"""Of a transaction of which no journal tells."""
OTHERWISE = f"(size({EFFECTS}) = 1 and {EFFECTS}[0] != decided)"
"""Its markers agree, and the transaction log says something else."""

RULES = (
    Rule(
        NAME,
        "operations",
        where=f"transactional and (size({SEEN}) > 1 or {HALF_READ})",
        unless="size(array_distinct(records.effect)) <= 1 and not array_contains(records.given, false)",
        order=["op"],
        ops="array(op)",
        absence=f"(size({SEEN}) <= 1)",
        detail={
            "operation": operation(),
            "fates": SEEN,
            "records": f"transform(slice(filter(records, r -> r.acked), 1, {SHOWN}), "
            "r -> struct(r.tp as tp, r.offset as offset, r.value as value, r.given as given))",
        },
    ),
    Rule(
        NAME,
        "spans",
        where=f"size({EFFECTS}) > 1 or {OTHERWISE}",
        order=["log_tp", "log_offset"],
        ops=SPAN_OPS,
        detail={
            "operation": span(),
            "decided": f"if({OTHERWISE}, decided, null)",
            "fates": EFFECTS,
            "records": f"transform(slice(records, 1, {SHOWN}), r -> {place('r.tp', 'r.offset')})",
        },
    ),
)
"""One finding for each transaction."""


def torn_transaction_external(t: ExternalTables) -> DataFrame:
    """One row for each transaction of an external history that was read in part: one of its records was
    ok-read, and another is lost though its offset is known.
    """
    lost = (
        t.values.where(LOST)
        .groupBy("run", F.col("writer").alias("op"))
        .agg(F.expr("array_sort(collect_set(struct(key, value, lowest_offset as offset))) as unread"))
    )
    read = t.siblings.groupBy("run", "op").agg(
        F.expr("array_sort(collect_set(struct(key, value, offset))) as read")
    )
    return finding(
        read.join(lost, on=["run", "op"], how="inner"),
        NAME,
        order=["op"],
        ops="array(op)",
        absence="true",
        operation=operation(),
        read=f"slice(read, 1, {SHOWN})",
        unread=f"slice(unread, 1, {SHOWN})",
    )


def _sentence(e: Example) -> str:
    fates = [
        f"{named_place(part.body)} is {fate(part.body)}"
        for part in e.records
        if part.body.get("fate") is not None
    ]
    told = e.rest.get("fates")
    if not fates and isinstance(told, list):
        fates = [f"some of its records are {FATES.get(str(one), printable(one, 40))}" for one in told]
    said = listed(fates) if fates else "its records do not share one fate"
    if (decided := e.rest.get("decided")) is not None:
        said = f"the transaction log says that it is {FATES.get(str(decided), printable(decided, 40))}, and {said}"
    return f"{e.operation} was one transaction, and {said}"


TOLD = {
    "torn-transaction": Told(
        "transaction was torn apart",
        "transactions were torn apart",
        "The records of one transaction must all be committed or all be aborted. These were not.",
        _sentence,
    ),
}
