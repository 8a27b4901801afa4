"""Make the tables `tps` and `topics`. They say for each partition and each topic what the log covers and how far it was
read.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from checkers.stored.tally import EMPTY, OutputDue, Row, Tally
from harness.model.promises import TRANSACTIONS_TOPIC
from harness.model.vocabulary import Fate, Guarantee, Isolation, OffsetTracking, Role

RunPartition = tuple[int, int]
"""Run and partition."""
_i64 = pa.int64()
TPS = pa.schema(
    [
        ("run", _i64),
        ("tp", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        *((name, pa.bool_()) for name in ("internal", "compacted", "is_input", "ordered", "each", "logged")),
        *((name, pa.bool_()) for name in ("owing", "within_transactions", "compacts", "sums_alone")),
        *((name, pa.list_(pa.string())) for name in ("allows_duplicates", "unasked")),
        ("growths", _i64),
        ("added", pa.bool_()),
        *((name, _i64) for name in ("log_start", "log_end", "high_watermark", "followers")),
        ("lacks_records", pa.bool_()),
        ("unreadable", pa.struct([("broker", pa.int32()), ("log_end", _i64), ("high_watermark", _i64)])),
        *((name, _i64) for name in ("rc_first", "rc_next")),
        ("rc_end", pa.bool_()),
        *((name, _i64) for name in ("ru_first", "ru_next")),
        ("ru_end", pa.bool_()),
    ]
)
"""The columns of the table `tps`.

Columns:
    run, tp, topic, partition
    internal: the topic is Kafka's own
    is_input: a stage reads the topic
    ordered: every stage that reads it promises to keep the order
    each: a stage may take its records in any order, and commits each of them
    compacts: the topic is compacted
    compacted: the topic is compacted, and records may be gone, because the leader's log lacks offsets
    sums_alone: sums are expected in the topic, and no outputs
    owing: the expected outputs of its records are known, for every stage that reads it
    unasked: of the run: array of the topics that may hold records other than expected outputs
    growths: how often the topic got more partitions during the run
    added: the topic got this partition during the run
    within_transactions: programs without journals must write to the topic only in transactions
    allows_duplicates: of the run: array of the stages that promise at least once; null: none
    logged: the leader's log is stored, and not damaged
    lacks_records: a recorded table lacks records of the leader's log, or the log is not stored
    log_start, log_end, high_watermark: of the leader's log
    followers: the number of other replicas that are stored
    unreadable: [broker, log_end, high_watermark] of a damaged follower that cannot be read up to its high watermark
    rc_first: where the final read-committed reader began, or where the log begins, if that is higher
    rc_next: the offset after the last record that it read
    rc_end: it reached the sentinel
    ru_first, ru_next, ru_end: the same for the final read-uncommitted reader
"""
TOPICS = pa.schema(
    [
        ("run", _i64),
        ("topic", pa.string()),
        *((f"topic_{name}", pa.bool_()) for name in ("rc_end", "ru_end", "logged", "whole")),
        *((name, pa.bool_()) for name in ("announced", "named")),
    ]
)


ORDERS = pa.schema(
    [
        ("run", _i64),
        ("in_tp", pa.int32()),
        ("topic", pa.string()),
        ("output_name", pa.string()),
        ("promised", pa.bool_()),
    ]
)


def effective(fate: str) -> str:
    """Return SQL for the effect of a record with this fate: commit (also for plain), abort, open; null without a
    log.
    """
    return f"if({fate} = '{Fate.PLAIN.value}', '{Fate.COMMIT.value}', {fate})"


def rows_of_tps(
    partitions: Iterable[Row],
    replicas: Iterable[Row],
    ends: Iterable[Row],
    stages: Iterable[Row],
    runs: Sequence[Row] = (),
    raw: Tally | None = None,
) -> list[Row]:
    """Make the rows of the table `tps`, one for each partition. They have the columns of `TPS`, and these: `whole`: the
    log has every offset from 0 on; `holes`: the number of offsets that it lacks.

    Args:
        partitions, replicas, ends, stages, runs: rows of the recorded tables
        raw: counts of the recorded tables
    """
    logs, readers = _by_partition(replicas), _by_partition(ends)
    stages, raw = list(stages), raw or EMPTY
    input_topics, allows_duplicates = _input_topics(stages), _at_least_once_stages(stages)
    free = {(run["run"], stage) for run in runs for stage in run["free_stages"]}
    owing = _owing(stages, free, raw)
    unasked = {run["run"]: _unasked(run, raw) for run in runs}
    growths = {(run["run"], grown["topic"]): grown for run in runs for grown in run["growths"]}
    within = {
        (run["run"], topic) for run in runs if not run["journaled"] for topic in run["transactional_topics"]
    }
    rows: list[Row] = []
    for partition in partitions:
        key = (partition["run"], partition["tp"])
        log = _log(logs.get(key, ()))
        reads = _final_reads(readers.get(key, ()), log["log_start"] if log["logged"] else None)
        promises = input_topics.get(
            (partition["run"], partition["topic"]), {"is_input": False, "ordered": False, "each": False}
        )
        topic = partition["run"], partition["topic"]
        rows.append(
            {
                **partition,
                **log,
                **reads,
                **promises,
                "compacts": partition["compacted"],
                "compacted": bool(partition["compacted"]) and not log["whole"],
                "sums_alone": partition["topic"] in raw.texts(partition["run"], "sums")
                and partition["topic"] not in raw.texts(partition["run"], "due"),
                "owing": topic in owing,
                "within_transactions": topic in within,
                "lacks_records": _lacks_records(partition, log, raw),
                "allows_duplicates": allows_duplicates.get(partition["run"]),
                "unasked": unasked.get(partition["run"], []),
                "growths": growths[topic]["times"] if topic in growths else 0,
                "added": topic in growths and partition["partition"] >= growths[topic]["planned"],
            }
        )
    return rows


def _lacks_records(partition: Row, log: Row, raw: Tally) -> bool:
    """Return whether the table `batches`, or `transactions` for the transaction log, lacks records of a log."""
    if not log["logged"] or partition["topic"] != TRANSACTIONS_TOPIC:
        return not log["logged"] or log["holes"] > 0
    stored = raw.in_tp(partition["run"], "transactions", partition["tp"])
    return bool((stored["rows"] if stored else 0) != log["log_end"] - log["log_start"])


def _unasked(run: Row, raw: Tally) -> list[str]:
    """Return the topics with sums, and the tables of databases that no input leads to."""
    unexpected_tables = set(run["tables"]) - set(raw.texts(run["run"], "due"))
    return sorted({*raw.texts(run["run"], "sums"), *unexpected_tables})


def _owing(stages: Iterable[Row], free: Collection[tuple[int, str]], raw: Tally) -> set[tuple[int, str]]:
    """Return the input topics of which every reading stage has expected outputs."""
    readers: dict[tuple[int, str], list[str]] = defaultdict(list)
    for stage in stages:
        readers[stage["run"], stage["in_topic"]].append(stage["stage"])
    return {
        (run, topic)
        for (run, topic), names in readers.items()
        if all(name in raw.texts(run, "expected") and (run, name) not in free for name in names)
    }


def _by_partition(rows: Iterable[Row]) -> Mapping[RunPartition, list[Row]]:
    by_partition: dict[RunPartition, list[Row]] = defaultdict(list)
    for row in rows:
        by_partition[row["run"], row["tp"]].append(row)
    return by_partition


LOG_RANGE = ("log_start", "log_end", "high_watermark")


def _log(replicas: Iterable[Row]) -> Row:
    """Return the range of the leader's log, and a follower whose log cannot be read up to its high watermark."""
    leaders: list[Row] = [
        {"logged": replica["damaged"] is None, **_select(replica, LOG_RANGE), **_gaps(replica)}
        for replica in replicas
        if replica["leader"]
    ]
    followers = [replica for replica in replicas if not replica["leader"]]
    short = [
        _select(replica, ("broker", "log_end", "high_watermark"))
        for replica in followers
        if _is_short(replica)
    ]
    log = min(leaders or [{"logged": False, **dict.fromkeys(LOG_RANGE), **_gaps({})}], key=_null_first)
    return {
        **log,
        "followers": len(followers),
        "unreadable": min(short, key=_null_first, default=None),
    }


def _gaps(replica: Row) -> Row:
    return {"whole": replica.get("whole", False), "holes": replica.get("holes", 0)}


def _is_short(replica: Row) -> bool:
    """Return whether a damaged log ends below its high watermark. Damage above the high watermark is no loss: a killed
    broker may leave it, and Kafka cuts it off.
    """
    end, mark = replica["log_end"], replica["high_watermark"]
    return replica["damaged"] is not None and (end is None or mark is None or end < mark)


def _final_reads(ends: Iterable[Row], start: int | None) -> Row:
    """Return the range that the final reader of each isolation level read."""
    columns: dict[str, Any] = {}
    for name, level in (("rc", Isolation.READ_COMMITTED), ("ru", Isolation.READ_UNCOMMITTED)):
        of_level = [
            row for row in ends if row["role"] != Role.OBSERVER.value and row["isolation"] == level.value
        ]
        reached = min(
            (_select(row, ("first", "next", "sentinel_offset")) for row in of_level),
            key=_null_first,
            default={},
        )
        firsts = [first for first in (reached.get("first"), start) if first is not None]
        columns[f"{name}_first"] = max(firsts, default=None)
        columns[f"{name}_next"] = reached.get("next")
        columns[f"{name}_end"] = reached.get("sentinel_offset") is not None
    return columns


def _select(row: Row, names: Iterable[str]) -> Row:
    return {name: row[name] for name in names}


def _null_first(row: Row) -> list[tuple[bool, Any]]:
    """Sort by the columns in their order, null first."""
    return [(value is not None, value if value is not None else 0) for value in row.values()]


def _input_topics(stages: Iterable[Row]) -> Mapping[tuple[int, str], Row]:
    """Return for each topic that stages read what the stages promise."""
    readers: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for stage in stages:
        readers[stage["run"], stage["in_topic"]].append(stage)
    return {
        topic: {
            "is_input": True,
            "ordered": all(stage["ordered"] for stage in of_topic),
            "each": any(stage["positions"] == OffsetTracking.EACH.value for stage in of_topic),
        }
        for topic, of_topic in readers.items()
    }


def mixed_topics(stages: Iterable[Row]) -> set[tuple[int, str]]:
    """Return the topics that a stage with a promise of order reads, and another stage without one, by run."""
    promises: dict[tuple[int, str], set[bool]] = defaultdict(set)
    for stage in stages:
        promises[stage["run"], stage["in_topic"]].add(bool(stage["ordered"]))
    return {topic for topic, of_topic in promises.items() if len(of_topic) > 1}


def rows_of_orders(stages: Iterable[Row], due: Iterable[OutputDue]) -> list[Row]:
    """Make the rows of the table `orders`: which outputs are ordered, if stages with and without a promise of order
    read one topic.

    An output is made by the stage from which it is expected. Where the stages promise the same, the column `ordered` of
    `tps` says it.

    Columns:
        run, in_tp, topic, output_name: the partition of the inputs, and the outputs
        promised: every stage from which such an output is expected promises order, and makes it from the input itself.
            It is not known which stage makes an intermediate record
    """
    ordered = {(stage["run"], stage["stage"]) for stage in stages if stage["ordered"]}
    promised: dict[tuple[int, int, str, str], bool] = defaultdict(lambda: True)
    for run, stage, in_tp, topic, output_name, intermediate in due:
        promised[run, in_tp, topic, output_name] &= (run, stage) in ordered and intermediate is None
    return [dict(zip(ORDERS.names, (*output, kept), strict=True)) for output, kept in promised.items()]


def _at_least_once_stages(stages: Iterable[Row]) -> Mapping[int, list[str]]:
    """Return for each run the stages whose guarantee permits that an input takes effect more than once."""
    by_run: dict[int, set[str]] = defaultdict(set)
    for stage in stages:
        if stage["guarantee"] == Guarantee.AT_LEAST_ONCE.value:
            by_run[stage["run"]].add(stage["stage"])
    return {run: sorted(names) for run, names in by_run.items()}


def rows_of_topics(tps: Iterable[Row], raw: Tally) -> list[Row]:
    """Make the rows of the table `topics`: one for each topic that is not Kafka's own.

    Columns:
        run, topic
        topic_rc_end, topic_ru_end, topic_logged: `rc_end`, `ru_end`, `logged` hold for all partitions
        topic_whole: no partition is compacted or begins above offset 0
        announced: a journal announces a send to it
        named: outputs that name their inputs are expected in it from stages without journals
    """
    by_topic: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for tp in tps:
        if not tp["internal"]:
            by_topic[tp["run"], tp["topic"]].append(tp)
    return [
        {
            "run": run,
            "topic": topic,
            **{
                f"topic_{name}": all(tp[name] for tp in partitions) for name in ("rc_end", "ru_end", "logged")
            },
            "topic_whole": all(not tp["compacted"] and not _begins_above_zero(tp) for tp in partitions),
            "announced": topic in raw.texts(run, "sends"),
            "named": topic in raw.texts(run, "named"),
        }
        for (run, topic), partitions in by_topic.items()
    ]


def _begins_above_zero(tp: Row) -> bool:
    return any(tp[first] for first in ("rc_first", "ru_first"))
