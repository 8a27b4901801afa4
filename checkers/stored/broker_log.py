"""Make the tables of the broker log: `batches`, `states`, `log_entries` and `deliveries`.

`batches` has the leaders' data batches, and `states` the records of the transaction log. `log_entries` has for each
offset of a partition the facts of the log, the final read, the senders and the readers. `deliveries` has all deliveries
of a record, if one of them may be wrong.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.frames import broadcast, group
from checkers.spark.settings import coalesce_if_single
from checkers.stored.sources import Sources
from harness.model.vocabulary import Fate, Isolation, Role

TRANSACTIONS_TOPIC = "__transaction_state"
LATE_MS = 30_000
"""How long after its own time-out a transaction may still be listed as ongoing, in ms.

It is twice Kafka's default clean-up interval (10 s), plus a margin for a coordinator that moves.
"""
PREPARED = ("PrepareCommit", "PrepareAbort")
COMPLETE = ("CompleteCommit", "CompleteAbort")
PENDING_STATES = ("Ongoing", *PREPARED)
LISTED = f"""state in {PENDING_STATES} and array_contains(tps, tp)
    and not coalesce(state = 'Ongoing' and start_ms + timeout_ms + {LATE_MS} < end_ms, false)"""
"""For a batch: the transaction log lists its partition in a pending transaction, and if that is Ongoing, its time-out
has not passed long ago.
"""
ABANDONED = f"(fate = '{Fate.OPEN.value}' and coalesce(judgeable, false) and not coalesce({LISTED}, false))"
"""The batch is open after the end of the run, and `LISTED` is false."""
QUIET = ("run", "judgeable", "end_ms")
"""Columns of `runs` that decide whether a batch or state of the run is late."""


def make_batches(s: Sources, tps: DataFrame, runs: DataFrame) -> DataFrame:
    """Make the table `batches`: the leaders' data batches with their fates.

    Columns:
        run, tp, base_offset, last_offset, producer_id, epoch, base_sequence, transactional
        fate: commit, abort, open, or plain (not transactional)
        marker_offset, marker_epoch, marker_ms, marker_coordinator_epoch: the marker that ended its transaction; null:
            none
        epoch_before: the highest epoch of the producer id below it in the partition
        entry_before: the batch or marker of the producer id directly below it
        marker_next: the marker of the producer id directly above it; null: a batch is there, or nothing
        batch_before: the data batch of the producer id below it
        markers: the number of markers of the producer id in the partition
        internal, compacted, log_start, high_watermark, lacks_records: of the partition
        state: the last record of the producer id in the transaction log [transactional_id, state, state_epoch, tps]
        abandoned: see `ABANDONED`
    """
    state = "struct(transactional_id, state, state_epoch, tps) as state"
    return (
        _with_fates(s, tps)
        .join(broadcast(_last_states(s)), on=["run", "producer_id"], how="left")
        .join(broadcast(runs.select(*QUIET)), on="run", how="left")
        .selectExpr(
            *("run", "tp", "base_offset", "last_offset", "producer_id", "epoch", "base_sequence"),
            *("transactional", "fate"),
            "if(transactional, decided.offset, null) as marker_offset",
            "if(transactional, decided.epoch, null) as marker_epoch",
            "if(transactional, decided.ms, null) as marker_ms",
            "if(transactional, decided.coordinator_epoch, null) as marker_coordinator_epoch",
            *("epoch_before", "entry_before", "marker_next", "batch_before", "markers"),
            *("internal", "compacted", "log_start", "high_watermark", "lacks_records", state),
            f"{ABANDONED} as abandoned",
        )
    )


def _with_fates(s: Sources, tps: DataFrame) -> DataFrame:
    """Select every data batch, with its neighbours of the same producer, and the fate that the next marker gave it."""
    window = "partition by run, tp, producer_id"
    upwards = f"({window} order by base_offset)"
    above = f"({window} order by base_offset desc rows between unbounded preceding and 1 preceding)"
    below = f"({window} order by base_offset rows between unbounded preceding and 1 preceding)"
    marker = "struct(marker as type, base_offset as offset, epoch, max_timestamp_ms as ms, coordinator_epoch)"
    marker = f"if(marker is not null, {marker}, null)"
    entry = "struct(epoch, base_offset as offset, marker, coordinator_epoch)"
    data = "if(not control, struct(epoch, base_sequence, base_offset, last_offset), null)"
    partitions = tps.where(f"logged and topic != '{TRANSACTIONS_TOPIC}'").select(
        "run", "tp", "internal", "compacted", "log_start", "high_watermark", "lacks_records"
    )
    entries = s["batches"].where("leader").join(broadcast(partitions), on=["run", "tp"], how="inner")
    return (
        coalesce_if_single(entries)
        .selectExpr(
            "*",
            f"last({marker}, true) over {above} as decided",
            f"max(epoch) over {below} as epoch_before",
            f"lag({entry}) over {upwards} as entry_before",
            f"lead({marker}) over {upwards} as marker_next",
            f"last({data}, true) over {below} as batch_before",
            f"count(marker) over ({window}) as markers",
        )
        .where("not control")
        .selectExpr(
            "*",
            f"if(transactional, coalesce(decided.type, '{Fate.OPEN.value}'), '{Fate.PLAIN.value}') as fate",
        )
    )


def make_states(s: Sources, tps: DataFrame, runs: DataFrame) -> DataFrame:
    """Make the table `states`: the records of the transaction log.

    A record that repeats the one before it is left out: a coordinator writes a state again if its first attempt was not
    confirmed.

    Columns:
        run, log_tp, log_offset, transactional_id, producer_id, epoch, state, tps, timeout_ms, start_ms, update_ms
        before, before_2, before_3: the three earlier records of the transactional id
        last: the transactional id has no later record
        lacks_records: the table lacks records of this log
        late: it is the last record, in a Prepare state, and was written more than `LATE_MS` before the end of the run
    """
    by_id = "(partition by run, transactional_id order by log_offset)"  # all of an id are in one partition
    row = "struct(log_tp, log_offset, producer_id, epoch, state, tps, update_ms)"
    repeats = " and ".join(
        f"before.{column} <=> {column}" for column in ("state", "producer_id", "epoch", "tps")
    )
    late = f"last and judgeable and state in {PREPARED} and update_ms + {LATE_MS} < end_ms"
    return (
        s["transactions"]
        .selectExpr("*", f"lag({row}) over {by_id} as before")
        .where(f"not ({repeats})")
        .drop("before")
        .selectExpr(
            "*",
            f"lag({row}) over {by_id} as before",
            f"lag({row}, 2) over {by_id} as before_2",
            f"lag({row}, 3) over {by_id} as before_3",
            f"lead(true) over {by_id} is null as last",
        )
        .join(broadcast(runs.select(*QUIET)), on="run", how="left")
        .join(broadcast(tps.selectExpr("run", "tp as log_tp", "lacks_records")), ["run", "log_tp"], "left")
        .selectExpr(
            *("run", "log_tp", "log_offset", "transactional_id", "producer_id", "epoch", "state", "tps"),
            *("timeout_ms", "start_ms", "update_ms", "before", "before_2", "before_3", "last"),
            "coalesce(lacks_records, true) as lacks_records",
            f"coalesce({late}, false) as late",
        )
    )


def _last_states(s: Sources) -> DataFrame:
    """Select for each producer id its last record in the transaction log."""
    row = "struct(log_offset, transactional_id, state, epoch, tps, timeout_ms, start_ms)"
    last = s["transactions"].groupBy("run", "producer_id").agg(F.expr(f"max_by({row}, log_offset) as last"))
    return last.selectExpr(
        *("run", "producer_id", "last.transactional_id", "last.state", "last.epoch as state_epoch"),
        *("last.tps", "last.timeout_ms", "last.start_ms"),
    )


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
            `checkers.stored.broker_log.make_batches`
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
