"""By partition and offset: what was told of each place, and what became of the record in it."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.stored.sources import Sources
from harness.history import Fate, Isolation, Role


def make_positions(s: Sources, tps: DataFrame, batches: DataFrame) -> DataFrame:
    """run, tp, offset; of the log: held, producer_id, epoch, fate, marker_offset, marker_ms, abandoned; of
    the final read: found, value, slot, inputs, digest, sentinel, key, state; acks [op, n, value]; of the
    polls: polled, given (to the final reader), consumed (given to a worker), promised (given to a reader
    promised read committed), promised_ns (to the first of them), observed (how often, to an observer);
    differ (polls, final read and
    acknowledgements tell of more than one value); commit (an offset commit: group, tp, committed, op,
    transactional); visible; and from `tps`: topic, internal, is_input, logged, high_watermark, rc_end,
    covered (absence from the log counts), passed (the final read-committed reader read on beyond it);
    first_open (the first open record of its partition).
    """
    first_open = (
        batches.where(F.col("fate") == Fate.OPEN.value)
        .groupBy("run", "tp")
        .agg(F.min("base_offset").alias("first_open"))
    )
    united = _stored(batches)
    for part in (_found(s), _acked(s), _commits(s), _deliveries(s)):
        united = united.unionByName(part, allowMissingColumns=True)
    grouped = united.groupBy("run", "tp", "offset").agg(
        F.first("log", ignorenulls=True).alias("log"),
        F.first("record", ignorenulls=True).alias("record"),
        F.collect_list("ack").alias("acks"),
        F.first("commit", ignorenulls=True).alias("commit"),
        *(
            F.coalesce(F.max(name), F.lit(False)).alias(name)
            for name in ("polled", "given", "consumed", "promised")
        ),
        F.min("promised_ns").alias("promised_ns"),
        F.max("observed").alias("observed"),
        F.min(F.least("lowest", *_names())).alias("lowest"),
        F.max(F.greatest("highest", *_names())).alias("highest"),
    )
    takes_effect = F.expr(
        "coalesce(log.fate in ('commit', 'plain') and coalesce(offset < high_watermark, true), false)"
    )
    placed = grouped.join(F.broadcast(tps), on=["run", "tp"], how="inner")
    return placed.join(F.broadcast(first_open), on=["run", "tp"], how="left").select(
        "run", "tp", "offset", "topic", "internal", "is_input", "logged", "high_watermark", "rc_end",
        F.col("log").isNotNull().alias("held"),
        "log.producer_id", "log.epoch", "log.fate", "log.marker_offset", "log.marker_ms", "log.abandoned",
        F.col("record").isNotNull().alias("found"),
        "record.value", "record.slot", "record.inputs", "record.digest", "record.key", "record.state",
        F.coalesce("record.sentinel", F.lit(False)).alias("sentinel"),
        "acks", "commit", "polled", "given", "consumed", "promised", "promised_ns",
        F.coalesce("observed", F.lit(0)).alias("observed"),
        F.coalesce(F.col("lowest") != F.col("highest"), F.lit(False)).alias("differ"),
        "first_open",
        F.when(F.col("logged"), takes_effect).otherwise(F.col("given")).alias("visible"),
        F.expr("logged and not compacted and offset >= log_start").alias("covered"),
        F.expr("not compacted and coalesce(offset >= rc_first and offset < rc_next, false)").alias("passed"),
    )  # fmt: skip


def _stored(batches: DataFrame) -> DataFrame:
    """By place, what the leader's log holds there."""
    return batches.select(
        "run",
        "tp",
        F.explode(F.sequence("base_offset", "last_offset")).alias("offset"),
        F.struct("producer_id", "epoch", "fate", "marker_offset", "marker_ms", "abandoned").alias("log"),
    )


def _found(s: Sources) -> DataFrame:
    """By place, the record that the final reader was given."""
    return s["records"].select(
        "run",
        "tp",
        "offset",
        F.struct("value", "slot", "inputs", "digest", "sentinel", "key", "state").alias("record"),
    )


def _acked(s: Sources) -> DataFrame:
    """By place, what a client was told to stand there; only what was acknowledged has an offset."""
    return (
        s["sends"]
        .where("offset >= 0")
        .select("run", "tp", "offset", F.struct("op", "n", "value").alias("ack"))
    )


def _commits(s: Sources) -> DataFrame:
    """By place, the offset commit that stands there."""
    return s["offsets"].select(
        "run",
        F.col("log_tp").alias("tp"),
        F.col("log_offset").alias("offset"),
        F.struct("group", "tp", "committed", "op", "transactional").alias("commit"),
    )


def _deliveries(s: Sources) -> DataFrame:
    """By run, tp and offset: to what kinds of readers it was given."""
    promised = F.col("promised") == Isolation.READ_COMMITTED.value
    return (
        s["polls"]
        .groupBy("run", "tp", "offset")
        .agg(
            F.max(F.lit(True)).alias("polled"),
            F.max(F.col("role") == Role.FINAL.value).alias("given"),
            F.max(F.col("role") == Role.WORKER.value).alias("consumed"),
            F.max(promised).alias("promised"),
            F.min(F.when(promised, F.col("return_ns"))).alias("promised_ns"),
            F.count(F.when(F.col("role") == Role.OBSERVER.value, F.lit(1))).alias("observed"),
            F.min(_name("value")).alias("lowest"),
            F.max(_name("value")).alias("highest"),
        )
    )


def _name(value: str) -> Column:
    """A number for a value's name, so that the least and the greatest of many cost little; null for none."""
    return F.when(F.col(value).isNotNull(), F.xxhash64(value))


def _names() -> list[Column]:
    """What the record and the acknowledgement of a row name."""
    return [_name("record.value"), _name("ack.value")]


def make_deliveries(s: Sources, positions: DataFrame) -> DataFrame:
    """Every delivery of a record of which some delivery may be wrong; few, in most runs none.

    run, tp, offset, op, n, value, role, promised, return_ns; of the position: stored (the value in the final
    read), fate, marker_ms, acks, differ, first_open; wall_ms; and what may be wrong with it:
    uncommitted (its fate is abort or open, or its marker was written after a promised delivery), above (a
    promised one, above the first open record), vanished (the final reader read past it and was not given it).
    """
    here = "held and promised and fate != 'plain'"
    uncommitted = F.expr(f"coalesce({here} and fate in ('abort', 'open'), false)")
    early = F.expr(f"coalesce({here} and fate = 'commit' and wall_ms + promised_ns / 1e6 < marker_ms, false)")
    suspects = (
        positions.join(F.broadcast(s["runs"].select("run", "wall_ms")), on="run", how="left")
        .select(
            "run",
            "tp",
            "offset",
            F.when(F.col("found"), F.col("value")).alias("stored"),
            "fate",
            "marker_ms",
            "acks",
            "differ",
            "first_open",
            "wall_ms",
            (uncommitted | early).alias("uncommitted"),
            F.expr("coalesce(promised and offset > first_open, false)").alias("above"),
            F.expr(
                "promised and passed and not given and coalesce(fate not in ('abort', 'open'), true)"
            ).alias("vanished"),
        )
        .where("differ or uncommitted or above or vanished")
    )
    columns = ["run", "tp", "offset", "op", "n", "value", "role", "promised", "return_ns"]
    return s["polls"].select(*columns).join(F.broadcast(suspects), on=["run", "tp", "offset"], how="inner")
