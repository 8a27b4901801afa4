"""Make the tables `batches` and `states`: the leaders' data batches, and the records of the transaction log."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast
from checkers.spark.settings_by_rows import coalesce_if_single
from checkers.stored.sources import Sources
from harness.model.promises import TRANSACTIONS_TOPIC
from harness.model.vocabulary import Fate

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
