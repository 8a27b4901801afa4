"""By partition and offset: what was told of each place, and what became of the record in it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast, group
from checkers.stored.sources import Sources
from harness.model.vocabulary import Fate, Isolation, Role

READERS = "concat(acks.op, array(op))"
"""Of a row of `deliveries`: the operations that were told of the record, and the one that was given it."""
PROMISED = f"promised = '{Isolation.READ_COMMITTED.value}'"
KINDS = {
    "given": f"role = '{Role.FINAL.value}'",
    "consumed": f"role = '{Role.WORKER.value}'",
    "promised": PROMISED,
}
"""Kinds of readers, and which rows of `polls` are theirs: a bit for each, in their order."""

NAME = "if(value is not null, xxhash64(value), null) as name"
"""A number for a value's name, so that the least and the greatest of many cost little; null for none."""

NAMELESS = "value is null as nameless"


def make_log_entries(s: Sources, tps: DataFrame, batches: DataFrame) -> DataFrame:
    """run, tp, offset; of the log: held, producer_id, epoch, fate, marker_offset, marker_ms, abandoned; of
    the final read: found, value, output name, inputs, digest, sentinel, key, state, about; acks [op, n, value]; of the
    polls: polled, given (to the final reader), consumed (given to a worker), promised (given to a reader
    promised read committed), promised_ns (to the first of them), observed (how often, to an observer);
    differ (polls, final read and acknowledgements tell of more than one value); named_by_some (some of them tell of a
    value, and a reader was given none); commit (an offset commit: group, tp, committed, op, transactional); visible;
    and from `tps`: topic, internal, is_input, logged, high_watermark, rc_end, covered (absence from the log counts),
    passed (the final read-committed reader read on beyond it), within_transactions; first_open (the first open record
    of its partition); log_twice, record_twice, commit_twice (a table has two rows of this position).
    """
    first_open = (
        batches.where(f"fate = '{Fate.OPEN.value}'")
        .groupBy("run", "tp")
        .agg(F.expr("min(base_offset) as first_open"))
    )
    united = _stored(batches)
    for part in (_found(s), _acked(s), _commits(s), _deliveries(s)):
        united = united.unionByName(part, allowMissingColumns=True)
    told = (
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
    of_places = group(united, ("run", "tp", "offset"), told)
    takes_effect = (
        "coalesce(log.fate in ('commit', 'plain') and coalesce(offset < high_watermark, true), false)"
    )
    opened = of_places.join(broadcast(first_open), on=["run", "tp"], how="left")
    return opened.join(broadcast(tps), on=["run", "tp"], how="inner").selectExpr(
        *("run", "tp", "offset", "topic", "internal", "is_input", "logged", "high_watermark", "rc_end"),
        *("within_transactions", "log_twice", "record_twice", "commit_twice"),
        "log is not null as held",
        *(
            f"log.{one}"
            for one in ("producer_id", "epoch", "fate", "marker_offset", "marker_ms", "abandoned")
        ),
        "record is not null as found",
        *(
            f"record.{one}"
            for one in ("value", "output_name", "inputs", "digest", "key", "state", "correlation_key")
        ),
        "coalesce(record.sentinel, false) as sentinel",
        *("acks", "commit", "readers is not null as polled"),
        *(f"{_was_read(kind)} as {kind}" for kind in KINDS),
        "promised_ns",
        "coalesce(observed, 0) as observed",
        "coalesce(lowest != highest, false) as values_differ",
        "coalesce(nameless and lowest is not null, false) as named_by_some",
        "first_open",
        f"if(logged, {takes_effect}, {_was_read('given')}) as visible",
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
    record = "struct(value, output_name, inputs, digest, sentinel, key, state, correlation_key) as record"
    return s["records"].selectExpr("run", "tp", "offset", record, NAME, NAMELESS)


def _acked(s: Sources) -> DataFrame:
    """By place, what a client was told to stand there; only what was acknowledged has an offset."""
    acked = s["sends"].where("offset is not null")
    return acked.selectExpr("run", "tp", "offset", "struct(op, n, value) as ack", NAME)


def _commits(s: Sources) -> DataFrame:
    """By place, the offset commit that stands there."""
    commit = "struct(group, tp, committed, op, transactional) as commit"
    return s["offsets"].selectExpr("run", "log_tp as tp", "log_offset as offset", commit)


def _deliveries(s: Sources) -> DataFrame:
    """By place, every delivery of the record. They are not counted first: that would shuffle them twice."""
    kinds = " | ".join(f"if({what}, {1 << n}, 0)" for n, what in enumerate(KINDS.values()))
    return s["polls"].selectExpr(
        *("run", "tp", "offset"),
        f"{kinds} as readers",
        f"if({PROMISED}, return_ns, null) as promised_ns",
        f"if(role = '{Role.OBSERVER.value}', 1L, 0L) as observed",
        NAME,
        NAMELESS,
    )


def _was_read(kind: str) -> str:
    """Whether some delivery was to a reader of that kind."""
    return f"coalesce(readers & {1 << list(KINDS).index(kind)} != 0, false)"


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
        positions.join(broadcast(runs.select("run", "wall_ms")), on="run", how="left")
        .selectExpr(
            *("run", "tp", "offset"),
            "if(found, value, null) as stored",
            *("fate", "marker_ms", "acks", "values_differ", "first_open", "wall_ms"),
            f"{uncommitted} or {early} as uncommitted",
            "coalesce(promised and offset > first_open, false) as above",
            "promised and passed and not given and coalesce(fate not in ('abort', 'open'), true) as vanished",
        )
        .where("values_differ or uncommitted or above or vanished")
    )


def make_deliveries(s: Sources, suspected: DataFrame) -> DataFrame:
    """Every delivery of such a record: its columns, and op, n, value, role, promised, return_ns."""
    columns = ["run", "tp", "offset", "op", "n", "value", "role", "promised", "return_ns"]
    return s["polls"].select(*columns).join(broadcast(suspected), on=["run", "tp", "offset"], how="inner")
