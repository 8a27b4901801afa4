"""By run and by journal: what is known of each, and whether all that it recorded is here."""

from collections import defaultdict
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
        *((name, _bool) for name in ("commits_logged", "offsets_whole", "commits_whole")),
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
    """run, wall_ms, whole, healed_ns, session_ms; judgeable (the run came to its end, and the whole transaction log is
    here), end_ms (wall), longest_ms (the longest time-out of its transactions); commits_logged (the whole log of
    offset commits is here), offsets_whole (and is not compacted), commits_whole (and each of a group of the pipeline's
    is transactional and names its operation).
    """
    internal: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for tp in tps:
        internal[tp["run"], tp["topic"]].append(tp)
    groups: dict[int, set[str]] = defaultdict(set)
    for stage in stages:
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


def _commits(run: int, log: list[Row], groups: set[str], raw: Tally) -> dict[str, bool]:
    """What is known of its offset commits."""
    logged = bool(log) and all(tp["logged"] for tp in log)
    whole = logged and not any(tp["compacted"] for tp in log)
    unnamed = any(count["unnamed"] for group, count in raw.texts(run, "offsets").items() if group in groups)
    return {"commits_logged": logged, "offsets_whole": whole, "commits_whole": whole and not unnamed}


def rows_of_journals(journals: Iterable[Row], raw: Tally) -> list[Row]:
    """run, journal, role, ended, missing_lines, ops, counted (operations of it that are here), intact (all that it ever
    held is here), unbroken (the last line aside).
    """
    return [_journal(one, raw) for one in journals]


def _journal(one: Row, raw: Tally) -> Mapping[str, Any]:
    counted = raw.texts(one["run"], "ops").get(one["journal"], {"rows": 0})["rows"]
    whole = one["missing_lines"] == 0 and counted == one["ops"]
    return {**one, "counted": counted, "unbroken": whole, "intact": whole and one["torn_lines"] == 0}
