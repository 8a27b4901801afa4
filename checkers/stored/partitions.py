"""By partition: what the log holds of it, how far it was read, and what its readers promise; by topic the same."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from checkers.stored.tally import EMPTY, Row, Tally
from harness.model.vocabulary import Fate, Guarantee, Isolation, OffsetTracking, Role

Place = tuple[int, int]
"""A run, and a partition of it."""
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
        *((name, _i64) for name in ("log_start", "log_end", "high_watermark", "followers")),
        ("unreadable", pa.struct([("broker", pa.int32()), ("log_end", _i64), ("high_watermark", _i64)])),
        *((name, _i64) for name in ("rc_first", "rc_next")),
        ("rc_end", pa.bool_()),
        *((name, _i64) for name in ("ru_first", "ru_next")),
        ("ru_end", pa.bool_()),
    ]
)
TOPICS = pa.schema(
    [
        ("run", _i64),
        ("topic", pa.string()),
        *((f"topic_{name}", pa.bool_()) for name in ("rc_end", "ru_end", "logged", "whole")),
        *((name, pa.bool_()) for name in ("announced", "named")),
    ]
)


def effective(fate: str) -> str:
    """What a record's fate amounts to: commit (plain too), abort, open; null where there is no log."""
    return f"if({fate} = '{Fate.PLAIN.value}', '{Fate.COMMIT.value}', {fate})"


def rows_of_tps(
    partitions: Iterable[Row],
    replicas: Iterable[Row],
    ends: Iterable[Row],
    stages: Iterable[Row],
    runs: Sequence[Row] = (),
    raw: Tally | None = None,
) -> list[Row]:
    """run, tp, topic, partition, internal, is_input; compacts (its topic is compacted), compacted (and records may be
    gone: not every offset is in the leader's log); sums_alone (sums are expected in it, and no outputs); owing (for
    each stage that reads it, the expectation states what its inputs must lead to); unasked [topic] (of the run: the
    topics whose outputs need not be due); within_transactions (programs without journals must write it in transactions
    alone); ordered (every stage that reads it promises order); each (a stage takes its records in any order, and
    marks each as done); lenient [stage] (of the run: those that promise an effect at least once); logged (the
    leader's log is here and whole), log_start, log_end, high_watermark, followers (how many other replicas are here),
    unreadable [broker, log_end, high_watermark] (one of them that is damaged, and cannot be read up to its high
    watermark); for the final readers rc (read committed) and ru: rc_first (where they began, or where the log begins,
    if that is higher), rc_next, rc_end (came to the sentinel), ru_first, ru_next, ru_end.
    """
    logs, readers = _by_place(replicas), _by_place(ends)
    stages, raw = list(stages), raw or EMPTY
    read, allows_duplicates = _input_topics(stages), _lenient(stages)
    free = {(one["run"], stage) for one in runs for stage in one["free_stages"]}
    owing = _owing(stages, free, raw)
    unasked = {one["run"]: _unasked(one, raw) for one in runs}
    within = {
        (one["run"], topic) for one in runs if not one["journaled"] for topic in one["transactional_topics"]
    }
    rows: list[Row] = []
    for one in partitions:
        place = (one["run"], one["tp"])
        log = _log(logs.get(place, ()))
        edges = _reach(readers.get(place, ()), log["log_start"] if log["logged"] else None)
        of_topic = read.get((one["run"], one["topic"]), {"is_input": False, "ordered": False, "each": False})
        topic = one["run"], one["topic"]
        rows.append(
            {
                **one,
                **log,
                **edges,
                **of_topic,
                "compacts": one["compacted"],
                "compacted": bool(one["compacted"]) and not log["whole"],
                "sums_alone": one["topic"] in raw.texts(one["run"], "sums")
                and one["topic"] not in raw.texts(one["run"], "due"),
                "owing": topic in owing,
                "within_transactions": topic in within,
                "allows_duplicates": allows_duplicates.get(one["run"]),
                "unasked": unasked.get(one["run"], []),
            }
        )
    return rows


def _unasked(run: Row, raw: Tally) -> list[str]:
    """The topics whose records need not be outputs that are due: those of sums, and tables that no input leads to."""
    apart = set(run["tables"]) - set(raw.texts(run["run"], "due"))
    return sorted({*raw.texts(run["run"], "sums"), *apart})


def _owing(stages: Iterable[Row], free: Collection[tuple[int, str]], raw: Tally) -> set[tuple[int, str]]:
    """The input topics of which the expectation speaks for every stage that reads them."""
    readers: dict[tuple[int, str], list[str]] = defaultdict(list)
    for stage in stages:
        readers[stage["run"], stage["in_topic"]].append(stage["stage"])
    return {
        (run, topic)
        for (run, topic), names in readers.items()
        if all(name in raw.texts(run, "expected") and (run, name) not in free for name in names)
    }


def _by_place(rows: Iterable[Row]) -> Mapping[Place, list[Row]]:
    found: dict[Place, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["run"], row["tp"]].append(row)
    return found


OF_A_LOG = ("log_start", "log_end", "high_watermark")


def _log(replicas: Iterable[Row]) -> Row:
    """How far the log of the one leader goes, and a follower that cannot be read to the end."""
    leaders: list[Row] = [
        {"logged": one["damaged"] is None, **_part(one, OF_A_LOG), **_held(one)}
        for one in replicas
        if one["leader"]
    ]
    followers = [one for one in replicas if not one["leader"]]
    short = [_part(one, ("broker", "log_end", "high_watermark")) for one in followers if _is_short(one)]
    log = min(leaders or [{"logged": False, **dict.fromkeys(OF_A_LOG), **_held({})}], key=_order)
    return {
        **log,
        "followers": len(followers),
        "unreadable": min(short, key=_order, default=None),
    }


def _held(replica: Row) -> Row:
    return {"whole": replica.get("whole", False), "holes": replica.get("holes", 0)}


def _is_short(replica: Row) -> bool:
    """A torn tail above the high watermark is what a killed broker may leave: Kafka cuts it off."""
    end, mark = replica["log_end"], replica["high_watermark"]
    return replica["damaged"] is not None and (end is None or mark is None or end < mark)


def _reach(ends: Iterable[Row], start: int | None) -> Row:
    """How far the final readers came, one of each isolation level."""
    found: dict[str, Any] = {}
    for name, level in (("rc", Isolation.READ_COMMITTED), ("ru", Isolation.READ_UNCOMMITTED)):
        own = [one for one in ends if one["role"] != Role.OBSERVER.value and one["isolation"] == level.value]
        came = min((_part(one, ("first", "next", "sentinel_offset")) for one in own), key=_order, default={})
        firsts = [first for first in (came.get("first"), start) if first is not None]
        found[f"{name}_first"] = max(firsts, default=None)
        found[f"{name}_next"] = came.get("next")
        found[f"{name}_end"] = came.get("sentinel_offset") is not None
    return found


def _part(row: Row, names: Iterable[str]) -> Row:
    return {name: row[name] for name in names}


def _order(row: Row) -> list[tuple[bool, Any]]:
    """By the columns in their order, null first."""
    return [(value is not None, value if value is not None else 0) for value in row.values()]


def _input_topics(stages: Iterable[Row]) -> Mapping[tuple[int, str], Row]:
    """By topic that a stage reads, what its stages promise."""
    readers: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for stage in stages:
        readers[stage["run"], stage["in_topic"]].append(stage)
    return {
        topic: {
            "is_input": True,
            "ordered": all(stage["ordered"] for stage in of),
            "each": any(stage["positions"] == OffsetTracking.EACH.value for stage in of),
        }
        for topic, of in readers.items()
    }


def _lenient(stages: Iterable[Row]) -> Mapping[int, list[str]]:
    """By run, the stages whose own guarantee permits that an input takes effect more than once."""
    found: dict[int, set[str]] = defaultdict(set)
    for stage in stages:
        if stage["guarantee"] == Guarantee.AT_LEAST_ONCE.value:
            found[stage["run"]].add(stage["stage"])
    return {run: sorted(names) for run, names in found.items()}


def rows_of_topics(tps: Iterable[Row], raw: Tally) -> list[Row]:
    """run, topic; of all its partitions together: topic_rc_end, topic_ru_end, topic_logged,
    topic_whole (none of them is compacted, or begins above 0);
    announced (somebody has announced a send to it); named (outputs that name their inputs are due in it, of stages
    without journals).
    """
    of: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for tp in tps:
        if not tp["internal"]:
            of[tp["run"], tp["topic"]].append(tp)
    return [
        {
            "run": run,
            "topic": topic,
            **{f"topic_{name}": all(tp[name] for tp in its) for name in ("rc_end", "ru_end", "logged")},
            "topic_whole": all(not tp["compacted"] and not _begins_late(tp) for tp in its),
            "announced": topic in raw.texts(run, "sends"),
            "named": topic in raw.texts(run, "named"),
        }
        for (run, topic), its in of.items()
    ]


def _begins_late(tp: Row) -> bool:
    return any(tp[first] for first in ("rc_first", "ru_first"))
