"""By producer: what the leaders' logs say of its batches, and the transaction log of its transactions."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast
from checkers.spark.partitions import coalesce_if_single
from checkers.stored.sources import Sources
from harness.model.vocabulary import Fate

TRANSACTIONS_TOPIC = "__transaction_state"
LATE_MS = 30_000
"""How long beyond its own time-out a transaction may stay listed as ongoing: twice Kafka's default
clean-up interval (10 s), and a margin for a coordinator that moves."""
PREPARED = ("PrepareCommit", "PrepareAbort")
COMPLETE = ("CompleteCommit", "CompleteAbort")
PENDING_STATES = ("Ongoing", *PREPARED)
LISTED = f"""state in {PENDING_STATES} and array_contains(tps, tp)
    and not coalesce(state = 'Ongoing' and start_ms + timeout_ms + {LATE_MS} < end_ms, false)"""
"""Of a batch: the transaction log lists its transaction as under way, and not for too long."""
ABANDONED = f"(fate = '{Fate.OPEN.value}' and coalesce(judgeable, false) and not coalesce({LISTED}, false))"
"""Open after quiescence, and not listed as under way, or for too long."""
QUIET = ("run", "judgeable", "end_ms")
"""Of the table `runs`: what the batches and states of a run are weighed with."""


def make_batches(s: Sources, tps: DataFrame, runs: DataFrame) -> DataFrame:
    """The leader's data batches: run, tp, base_offset, last_offset, producer_id, epoch, base_sequence,
    transactional, fate; the marker that decided (marker_offset, marker_epoch, marker_ms, marker_coordinator_epoch);
    abandoned (open, and the transaction log does not list it as under way, or has done so for too long). Of its
    producer id in this partition: epoch_before (the highest epoch below it), entry_before (the batch or marker just
    below it), marker_next (if a marker stands just above it), batch_before (the data batch below it), markers (how
    many there are in all). internal, compacted, log_start, high_watermark: of the partition.
    """
    state = "struct(transactional_id, state, state_epoch, tps) as state"
    return (
        _fated(s, tps)
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
            *("internal", "compacted", "log_start", "high_watermark", state),
            f"{ABANDONED} as abandoned",
        )
    )


def _fated(s: Sources, tps: DataFrame) -> DataFrame:
    """Every data batch with its neighbours of the same producer, and what the next marker made of it."""
    of = "partition by run, tp, producer_id"
    upwards = f"({of} order by base_offset)"
    above = f"({of} order by base_offset desc rows between unbounded preceding and 1 preceding)"
    below = f"({of} order by base_offset rows between unbounded preceding and 1 preceding)"
    marker = "struct(marker as type, base_offset as offset, epoch, max_timestamp_ms as ms, coordinator_epoch)"
    marker = f"if(marker is not null, {marker}, null)"
    entry = "struct(epoch, base_offset as offset, marker, coordinator_epoch)"
    data = "if(not control, struct(epoch, base_sequence, base_offset, last_offset), null)"
    here = tps.where(f"logged and topic != '{TRANSACTIONS_TOPIC}'").select(
        "run", "tp", "internal", "compacted", "log_start", "high_watermark"
    )
    entries = s["batches"].where("leader").join(broadcast(here), on=["run", "tp"], how="inner")
    return (
        coalesce_if_single(entries)
        .selectExpr(
            "*",
            f"last({marker}, true) over {above} as decided",
            f"max(epoch) over {below} as epoch_before",
            f"lag({entry}) over {upwards} as entry_before",
            f"lead({marker}) over {upwards} as marker_next",
            f"last({data}, true) over {below} as batch_before",
            f"count(marker) over ({of}) as markers",
        )
        .where("not control")
        .selectExpr(
            "*",
            f"if(transactional, coalesce(decided.type, '{Fate.OPEN.value}'), '{Fate.PLAIN.value}') as fate",
        )
    )


def make_states(s: Sources, runs: DataFrame) -> DataFrame:
    """The transaction log, record by record: run, log_tp, log_offset, transactional_id, producer_id, epoch,
    state, tps, timeout_ms, start_ms, update_ms; before, before_2, before_3 (the three that its
    transactional id had before it); last (none comes after it); late (it stays in a Prepare state long after
    the run had come to rest).

    A record that says the same as the one before it is left out: a coordinator writes a state again when
    its first attempt was not confirmed.
    """
    by_id = "(partition by run, transactional_id order by log_offset)"  # all of an id are in one partition
    row = "struct(log_tp, log_offset, producer_id, epoch, state, tps, update_ms)"
    again = " and ".join(f"before.{one} <=> {one}" for one in ("state", "producer_id", "epoch", "tps"))
    late = f"last and judgeable and state in {PREPARED} and update_ms + {LATE_MS} < end_ms"
    return (
        s["transactions"]
        .selectExpr("*", f"lag({row}) over {by_id} as before")
        .where(f"not ({again})")
        .drop("before")
        .selectExpr(
            "*",
            f"lag({row}) over {by_id} as before",
            f"lag({row}, 2) over {by_id} as before_2",
            f"lag({row}, 3) over {by_id} as before_3",
            f"lead(true) over {by_id} is null as last",
        )
        .join(broadcast(runs.select(*QUIET)), on="run", how="left")
        .selectExpr(
            *("run", "log_tp", "log_offset", "transactional_id", "producer_id", "epoch", "state", "tps"),
            *("timeout_ms", "start_ms", "update_ms", "before", "before_2", "before_3", "last"),
            f"coalesce({late}, false) as late",
        )
    )


def _last_states(s: Sources) -> DataFrame:
    """By run and producer id, the last word of the transaction log."""
    row = "struct(log_offset, transactional_id, state, epoch, tps, timeout_ms, start_ms)"
    last = s["transactions"].groupBy("run", "producer_id").agg(F.expr(f"max_by({row}, log_offset) as last"))
    return last.selectExpr(
        *("run", "producer_id", "last.transactional_id", "last.state", "last.epoch as state_epoch"),
        *("last.tps", "last.timeout_ms", "last.start_ms"),
    )
