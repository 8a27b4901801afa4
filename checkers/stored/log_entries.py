"""Make the table `log_entries`: for each offset of a partition, the facts of the log, the final read, the senders and
the readers.

Also make `deliveries`: all deliveries of a record, if one of them may be wrong.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.frames import broadcast, group
from checkers.stored.sources import Sources
from harness.model.vocabulary import Fate, Isolation, Role

READERS = "concat(acks.op, array(op))"
"""For a row of `deliveries`: the operations whose sends were acknowledged at its position, and the operation that
received it.
"""
PROMISED = f"promised = '{Isolation.READ_COMMITTED.value}'"
READER_KINDS = {
    "delivered": f"role = '{Role.FINAL.value}'",
    "consumed": f"role = '{Role.WORKER.value}'",
    "promised": PROMISED,
}
"""Kinds of readers, each with the condition for its rows of `polls`. A bit mask has one bit for each, in this order."""

NAME = "if(value is not null, xxhash64(value), null) as name"
"""A hash of the value, so that the least and the greatest of many values are cheap to compute; null for no value."""

NAMELESS = "value is null as nameless"


def make_log_entries(s: Sources, tps: DataFrame, batches: DataFrame) -> DataFrame:
    """Make the table `log_entries`: one row for each position (partition and offset) that any evidence mentions.

    Columns:
        run, tp, offset
        topic, internal, is_input, logged, high_watermark, rc_end, within_transactions: of the partition, see
            `checkers.stored.partition_tables.TPS`
        log_twice, record_twice, commit_twice: a recorded table has two rows of this position
        held: the leader's log has a record at this offset
        producer_id, epoch, fate, marker_offset, marker_ms, abandoned: of its batch, see
            `checkers.stored.producers.make_batches`
        found: the final read-uncommitted reader received a record at this offset
        value, output_name, inputs, digest, key, state, correlation_key, sentinel: of that record
        acks: array of the sends that were acknowledged at this position [op, n, value]
        commit: the offset commit that this record holds [group, tp, committed, op, transactional, producer_id, epoch];
            null: none
        polled: any reader received it
        delivered: the final read-committed reader received it
        consumed: a worker received it
        promised: a reader that is promised read committed received it
        promised_ns: when the first of these readers received it
        observed: the number of deliveries to observers
        values_differ: the polls, the final read and the acknowledgements have more than one value
        named_by_some: some of them have a value, and one reader received a record without a value
        first_open: the lowest offset of an open record in the partition; null: none
        visible: by the log, its fate is commit or plain and it is below the high watermark; without a log, `delivered`
        covered: the log has every offset from this one on, so a record that the log lacks is gone
        passed: the offset is within the range of the final read-committed read, and the topic is not compacted
    """
    first_open = (
        batches.where(f"fate = '{Fate.OPEN.value}'")
        .groupBy("run", "tp")
        .agg(F.expr("min(base_offset) as first_open"))
    )
    united = _log_records(batches)
    for part in (_final_read(s), _acknowledged_sends(s), _offset_commits(s), _deliveries(s)):
        united = united.unionByName(part, allowMissingColumns=True)
    aggregates = (
        "any_value(log, true) as log",
        "any_value(record, true) as record",
        "collect_list(ack) as acks",
        "any_value(commit, true) as commit",
        "bit_or(readers) as readers",
        "min(promised_ns) as promised_ns",
        "sum(observed) as observed",
        "count(log) > 1 as log_twice",
        "count(record) > 1 as record_twice",
        "count(commit) > 1 as commit_twice",
        "min(name) as lowest",
        "max(name) as highest",
        "bool_or(nameless) as nameless",
    )
    grouped = group(united, ("run", "tp", "offset"), aggregates)
    takes_effect = (
        "coalesce(log.fate in ('commit', 'plain') and coalesce(offset < high_watermark, true), false)"
    )
    with_first_open = grouped.join(broadcast(first_open), on=["run", "tp"], how="left")
    return with_first_open.join(broadcast(tps), on=["run", "tp"], how="inner").selectExpr(
        *("run", "tp", "offset", "topic", "internal", "is_input", "logged", "high_watermark", "rc_end"),
        *("within_transactions", "log_twice", "record_twice", "commit_twice"),
        "log is not null as held",
        *(
            f"log.{column}"
            for column in ("producer_id", "epoch", "fate", "marker_offset", "marker_ms", "abandoned")
        ),
        "record is not null as found",
        *(
            f"record.{column}"
            for column in ("value", "output_name", "inputs", "digest", "key", "state", "correlation_key")
        ),
        "coalesce(record.sentinel, false) as sentinel",
        *("acks", "commit", "readers is not null as polled"),
        *(f"{_was_read(kind)} as {kind}" for kind in READER_KINDS),
        "promised_ns",
        "coalesce(observed, 0) as observed",
        "coalesce(lowest != highest, false) as values_differ",
        "coalesce(nameless and lowest is not null, false) as named_by_some",
        "first_open",
        f"if(logged, {takes_effect}, {_was_read('delivered')}) as visible",
        "logged and not compacted and offset >= log_start as covered",
        "not compacted and coalesce(offset >= rc_first and offset < rc_next, false) as passed",
    )


def _log_records(batches: DataFrame) -> DataFrame:
    """Select the record that the leader's log has at each position."""
    return batches.selectExpr(
        "run",
        "tp",
        "explode(sequence(base_offset, last_offset)) as offset",
        "struct(producer_id, epoch, fate, marker_offset, marker_ms, abandoned) as log",
    )


def _final_read(s: Sources) -> DataFrame:
    """Select the record that the final reader received at each position."""
    record = "struct(value, output_name, inputs, digest, sentinel, key, state, correlation_key) as record"
    return s["records"].selectExpr("run", "tp", "offset", record, NAME, NAMELESS)


def _acknowledged_sends(s: Sources) -> DataFrame:
    """Select the acknowledged sends at each position. Only acknowledged sends have an offset."""
    acked = s["sends"].where("offset is not null")
    return acked.selectExpr("run", "tp", "offset", "struct(op, n, value) as ack", NAME)


def _offset_commits(s: Sources) -> DataFrame:
    """Select the offset commit at each position of the log of offset commits."""
    commit = "struct(group, tp, committed, op, transactional, producer_id, epoch) as commit"
    return s["offsets"].selectExpr("run", "log_tp as tp", "log_offset as offset", commit)


def _deliveries(s: Sources) -> DataFrame:
    """Select every delivery of each record. Deliveries are not counted before the union, because that would shuffle
    them twice.
    """
    mask = " | ".join(f"if({condition}, {1 << n}, 0)" for n, condition in enumerate(READER_KINDS.values()))
    return s["polls"].selectExpr(
        *("run", "tp", "offset"),
        f"{mask} as readers",
        f"if({PROMISED}, return_ns, null) as promised_ns",
        f"if(role = '{Role.OBSERVER.value}', 1L, 0L) as observed",
        NAME,
        NAMELESS,
    )


def _was_read(kind: str) -> str:
    """Return SQL that is true if a reader of this kind received the record."""
    return f"coalesce(readers & {1 << list(READER_KINDS).index(kind)} != 0, false)"


def make_suspected(log_entries: DataFrame, runs: DataFrame) -> DataFrame:
    """Select the records of which a delivery may be wrong. Most runs have none.

    Columns:
        run, tp, offset
        stored: the value in the final read
        fate, marker_ms, acks, values_differ, first_open: see `make_log_entries`
        wall_ms: the wall clock at run time 0
        uncommitted: a reader that is promised read committed received it, and its fate is abort or open, or its marker
            was written later
        above: such a reader received it, and its offset is above that of the first open record
        vanished: such a reader received it, and the final reader read past it without receiving it
    """
    transactional = "held and promised and fate != 'plain'"
    uncommitted = f"coalesce({transactional} and fate in ('abort', 'open'), false)"
    early = (
        f"coalesce({transactional} and fate = 'commit' and wall_ms + promised_ns / 1e6 < marker_ms, false)"
    )
    return (
        log_entries.join(broadcast(runs.select("run", "wall_ms")), on="run", how="left")
        .selectExpr(
            *("run", "tp", "offset"),
            "if(found, value, null) as stored",
            *("fate", "marker_ms", "acks", "values_differ", "first_open", "wall_ms"),
            f"{uncommitted} or {early} as uncommitted",
            "coalesce(promised and offset > first_open, false) as above",
            "promised and passed and not delivered and coalesce(fate not in ('abort', 'open'), true) as vanished",
        )
        .where("values_differ or uncommitted or above or vanished")
    )


def make_deliveries(s: Sources, suspected: DataFrame) -> DataFrame:
    """Make the table `deliveries`: every delivery of a suspected record.

    Columns:
        the columns of `suspected`
        op, n, value, role, promised, return_ns: of the delivery
    """
    columns = ["run", "tp", "offset", "op", "n", "value", "role", "promised", "return_ns"]
    return s["polls"].select(*columns).join(broadcast(suspected), on=["run", "tp", "offset"], how="inner")
