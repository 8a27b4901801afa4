"""By run and by journal: what is known of each, and whether all that it recorded is here."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from checkers.stored.inputs import OFFSETS_TOPIC
from checkers.stored.producers import TRANSACTIONS_TOPIC
from checkers.stored.tally import Row, Tally

_i64, _bool = pa.int64(), pa.bool_()
RUNS = pa.schema(
    [
        ("run", _i64),
        ("judgeable", _bool),
        ("end_ms", pa.float64()),
        ("longest_ms", _i64),
        ("wall_ms", pa.float64()),
        ("whole", _bool),
        ("healed_ns", _i64),
        ("session_ms", _i64),
        *((name, _bool) for name in ("journaled", "commits_logged", "offsets_whole")),
        *((name, pa.list_(pa.string())) for name in ("named_groups", "outside_groups")),
    ]
)
JOURNALS = pa.schema(
    [
        *((name, _i64) for name in ("missing_lines", "ops", "counted", "run")),
        *((name, pa.string()) for name in ("journal", "role")),
        *((name, _bool) for name in ("ended", "unbroken", "intact")),
    ]
)


def rows_of_runs(runs: Iterable[Row], tps: Iterable[Row], stages: Iterable[Row], raw: Tally) -> list[Row]:
    """run, wall_ms, whole, healed_ns, session_ms, journaled; judgeable (the run came to its end, and the whole
    transaction log is here), end_ms (wall), longest_ms (the longest time-out of its transactions); commits_logged (the
    whole log of offset commits is here), offsets_whole (and is not compacted), named_groups (see `named_groups`),
    outside_groups (the groups of stages that have committed offsets, and none within a transaction).
    """
    internal: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for tp in tps:
        internal[tp["run"], tp["topic"]].append(tp)
    groups: dict[int, set[str]] = defaultdict(set)
    for stage in stages:
        if stage["group"] is not None:
            groups[stage["run"]].add(stage["group"])
    return [
        {
            **one,
            **_end(one, internal.get((one["run"], TRANSACTIONS_TOPIC), []), raw),
            **_commits(one["run"], internal.get((one["run"], OFFSETS_TOPIC), []), groups[one["run"]], raw),
        }
        for one in runs
    ]


def _end(run: Row, log: list[Row], raw: Tally) -> dict[str, Any]:
    """What its batches and states are weighed with."""
    number = run["run"]
    there = bool(log) and all(tp["logged"] for tp in log) and raw.of(number, "transactions")["rows"] > 0
    return {
        "judgeable": run["whole"] and there,
        "end_ms": raw.most.get((number, "ended"), run["rested_ms"]),
        "longest_ms": raw.most.get((number, "transactions")),
    }


def _commits(run: int, log: list[Row], groups: set[str], raw: Tally) -> dict[str, Any]:
    """Whether the log of offset commits is here and whole, and the groups whose commits can be missed in it."""
    logged = bool(log) and all(tp["logged"] for tp in log)
    whole = logged and not any(tp["compacted"] for tp in log)
    named = named_groups(run, groups, raw) if whole else []
    counts = raw.texts(run, "offsets")
    outside = sorted(group for group in groups & counts.keys() if not counts[group]["within"])
    return {
        "commits_logged": logged,
        "offsets_whole": whole,
        "named_groups": named,
        "outside_groups": outside,
    }


def named_groups(run: int, groups: set[str], raw: Tally) -> list[str]:
    """The groups of which an absent offset commit proves a loss.

    Such a group commits within transactions, each of these commits names its operation, and no operation commits
    outside a transaction. Beside them a commit outside that names no operation (an offset reset) changes nothing.
    """
    counts = raw.texts(run, "offsets")
    return sorted(group for group in groups if _all_named(counts.get(group)))


def _all_named(count: Counter[str] | None) -> bool:
    if count is None:
        return True  # all of its commits are gone
    return bool(count["within"]) and not count["unnamed"] and not count["outside"]


def rows_of_journals(journals: Iterable[Row], raw: Tally) -> list[Row]:
    """run, journal, role, ended, missing_lines, ops, counted (operations of it that are here), intact (all that it ever
    held is here), unbroken (the last line aside).
    """
    return [_journal(one, raw) for one in journals]


def _journal(one: Row, raw: Tally) -> Mapping[str, Any]:
    counted = raw.texts(one["run"], "ops").get(one["journal"], {"rows": 0})["rows"]
    whole = one["missing_lines"] == 0 and counted == one["ops"]
    return {**one, "counted": counted, "unbroken": whole, "intact": whole and one["torn_lines"] == 0}
