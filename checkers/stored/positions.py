"""By partition and offset: what was told of each place, and what became of the record in it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.gather import beside, gathered
from checkers.stored.sources import Sources
from harness.history import Fate, Isolation, Role

READERS = "concat(acks.op, array(op))"
"""Of a row of `deliveries`: the operations that were told of the record, and the one that was given it."""


def make_positions(s: Sources, tps: DataFrame, batches: DataFrame) -> DataFrame:
    """run, tp, offset; of the log: held, producer_id, epoch, fate, marker_offset, marker_ms, abandoned; of
    the final read: found, value, slot, inputs, digest, sentinel, key, state, about; acks [op, n, value]; of the
    polls: polled, given (to the final reader), consumed (given to a worker), promised (given to a reader
    promised read committed), promised_ns (to the first of them), observed (how often, to an observer);
    differ (polls, final read and
    acknowledgements tell of more than one value); commit (an offset commit: group, tp, committed, op,
    transactional); visible; and from `tps`: topic, internal, is_input, logged, high_watermark, rc_end,
    covered (absence from the log counts), passed (the final read-committed reader read on beyond it);
    first_open (the first open record of its partition).
    """
    first_open = (
        batches.where(f"fate = '{Fate.OPEN.value}'")
        .groupBy("run", "tp")
        .agg(F.expr("min(base_offset) as first_open"))
    )
    united = _stored(batches)
    for part in (_found(s), _acked(s), _commits(s), _deliveries(s)):
        united = united.unionByName(part, allowMissingColumns=True)
    names = f"{_name('record.value')}, {_name('ack.value')}"
    told = (
        "any_value(log, true) as log",
        "any_value(record, true) as record",
        "collect_list(ack) as acks",
        "any_value(commit, true) as commit",
        *(f"coalesce(max({one}), false) as {one}" for one in ("polled", "given", "consumed", "promised")),
        "min(promised_ns) as promised_ns",
        "max(observed) as observed",
        f"min(least(lowest, {names})) as lowest",
        f"max(greatest(highest, {names})) as highest",
    )
    grouped = gathered(united, "run", "tp", "offset").agg(*map(F.expr, told))
    takes_effect = (
        "coalesce(log.fate in ('commit', 'plain') and coalesce(offset < high_watermark, true), false)"
    )
    opened = grouped.join(beside(first_open), on=["run", "tp"], how="left")
    return opened.join(beside(tps), on=["run", "tp"], how="inner").selectExpr(
        *("run", "tp", "offset", "topic", "internal", "is_input", "logged", "high_watermark", "rc_end"),
        "log is not null as held",
        *(
            f"log.{one}"
            for one in ("producer_id", "epoch", "fate", "marker_offset", "marker_ms", "abandoned")
        ),
        "record is not null as found",
        *(f"record.{one}" for one in ("value", "slot", "inputs", "digest", "key", "state", "about")),
        "coalesce(record.sentinel, false) as sentinel",
        *("acks", "commit", "polled", "given", "consumed", "promised", "promised_ns"),
        "coalesce(observed, 0) as observed",
        "coalesce(lowest != highest, false) as differ",
        "first_open",
        f"if(logged, {takes_effect}, given) as visible",
        "logged and not compacted and offset >= log_start as covered",
        "not compacted and coalesce(offset >= rc_first and offset < rc_next, false) as passed",
    )


def _stored(batches: DataFrame) -> DataFrame:
    """By place, what the leader's log holds there."""
    return batches.selectExpr(
        "run",
        "tp",
        "explode(sequence(base_offset, last_offset)) as offset",
        "struct(producer_id, epoch, fate, marker_offset, marker_ms, abandoned) as log",
    )


def _found(s: Sources) -> DataFrame:
    """By place, the record that the final reader was given."""
    record = "struct(value, slot, inputs, digest, sentinel, key, state, about) as record"
    return s["records"].selectExpr("run", "tp", "offset", record)


def _acked(s: Sources) -> DataFrame:
    """By place, what a client was told to stand there; only what was acknowledged has an offset."""
    return s["sends"].where("offset >= 0").selectExpr("run", "tp", "offset", "struct(op, n, value) as ack")


def _commits(s: Sources) -> DataFrame:
    """By place, the offset commit that stands there."""
    commit = "struct(group, tp, committed, op, transactional) as commit"
    return s["offsets"].selectExpr("run", "log_tp as tp", "log_offset as offset", commit)


def _deliveries(s: Sources) -> DataFrame:
    """By run, tp and offset: to what kinds of readers it was given."""
    promised = f"promised = '{Isolation.READ_COMMITTED.value}'"
    told = (
        "max(true) as polled",
        f"max(role = '{Role.FINAL.value}') as given",
        f"max(role = '{Role.WORKER.value}') as consumed",
        f"max({promised}) as promised",
        f"min(if({promised}, return_ns, null)) as promised_ns",
        f"count(if(role = '{Role.OBSERVER.value}', 1, null)) as observed",
        f"min({_name('value')}) as lowest",
        f"max({_name('value')}) as highest",
    )
    return s["polls"].groupBy("run", "tp", "offset").agg(*map(F.expr, told))


def _name(value: str) -> str:
    """A number for a value's name, so that the least and the greatest of many cost little; null for none."""
    return f"if({value} is not null, xxhash64({value}), null)"


def make_suspected(positions: DataFrame, runs: DataFrame) -> DataFrame:
    """Every record of which some delivery may be wrong; few, in most runs none.

    run, tp, offset; of the position: stored (the value in the final read), fate, marker_ms, acks, differ, first_open;
    wall_ms; and what may be wrong with it: uncommitted (its fate is abort or open, or its marker was written after a
    promised delivery), above (a promised one, above the first open record), vanished (the final reader read past it and
    was not given it).
    """
    here = "held and promised and fate != 'plain'"
    uncommitted = f"coalesce({here} and fate in ('abort', 'open'), false)"
    early = f"coalesce({here} and fate = 'commit' and wall_ms + promised_ns / 1e6 < marker_ms, false)"
    return (
        positions.join(beside(runs.select("run", "wall_ms")), on="run", how="left")
        .selectExpr(
            *("run", "tp", "offset"),
            "if(found, value, null) as stored",
            *("fate", "marker_ms", "acks", "differ", "first_open", "wall_ms"),
            f"{uncommitted} or {early} as uncommitted",
            "coalesce(promised and offset > first_open, false) as above",
            "promised and passed and not given and coalesce(fate not in ('abort', 'open'), true) as vanished",
        )
        .where("differ or uncommitted or above or vanished")
    )


def make_deliveries(s: Sources, suspected: DataFrame) -> DataFrame:
    """Every delivery of such a record: its columns, and op, n, value, role, promised, return_ns."""
    columns = ["run", "tp", "offset", "op", "n", "value", "role", "promised", "return_ns"]
    return s["polls"].select(*columns).join(beside(suspected), on=["run", "tp", "offset"], how="inner")
