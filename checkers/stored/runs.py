"""Make the tables `runs` and `journals`: facts of each run, and whether each journal is complete."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from checkers.stored.sources import PASSED_OVER
from checkers.stored.tally import Row, Tally
from harness.model.promises import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

_i64, _bool = pa.int64(), pa.bool_()
RUNS = pa.schema(
    [
        ("run", _i64),
        ("judgeable", _bool),
        ("end_ms", pa.float64()),
        ("wall_ms", pa.float64()),
        ("whole", _bool),
        *((name, _bool) for name in ("journaled", "commits_logged", "offsets_whole")),
        *((name, pa.list_(pa.string())) for name in ("named_groups", "outside_groups")),
        ("passed_over", PASSED_OVER),
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
    """Make the rows of the table `runs`: one for each run.

    Columns:
        run
        wall_ms: the wall clock at run time 0; null: not comparable with the brokers' clock
        whole: the evidence was not cut short
        journaled: every stage keeps journals, and they are used
        judgeable: the evidence was not cut short, and the whole transaction log is stored
        end_ms: the wall clock when the last sentinel was written, or, without sentinels, when the pipeline had come to
            an end
        commits_logged: the whole log of offset commits is stored
        offsets_whole: the whole log of offset commits is stored, and no part of it is compacted
        named_groups: see `named_groups`
        passed_over: array [group, topic, partition]: partitions that topics got during the run, and that the group did
            not read in the time that it had
        outside_groups: the groups of stages that have committed offsets, but never within a transaction
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
            **run,
            **_end(run, internal.get((run["run"], TRANSACTIONS_TOPIC), []), raw),
            **_commits(run["run"], internal.get((run["run"], OFFSETS_TOPIC), []), groups[run["run"]], raw),
        }
        for run in runs
    ]


def _end(run: Row, log: list[Row], raw: Tally) -> dict[str, Any]:
    """Return when the run ended, and whether a transaction that is open at that time proves an anomaly."""
    number = run["run"]
    log_stored = bool(log) and all(tp["logged"] for tp in log) and raw.of(number, "transactions")["rows"] > 0
    return {
        "judgeable": run["whole"] and log_stored,
        "end_ms": raw.most.get((number, "ended"), run["rested_ms"]),
    }


def _commits(run: int, log: list[Row], groups: set[str], raw: Tally) -> dict[str, Any]:
    """Return whether the log of offset commits is complete, and for which groups a missing offset commit proves a
    loss.
    """
    logged = bool(log) and all(tp["logged"] for tp in log)
    complete = logged and not any(tp["compacted"] for tp in log)
    named = named_groups(run, groups, raw) if complete else []
    counts = raw.texts(run, "offsets")
    outside = sorted(group for group in groups & counts.keys() if not counts[group]["within"])
    return {
        "commits_logged": logged,
        "offsets_whole": complete,
        "named_groups": named,
        "outside_groups": outside,
    }


def named_groups(run: int, groups: set[str], raw: Tally) -> list[str]:
    """Return the groups for which a missing offset commit proves a loss.

    Such a group commits within transactions, each of these commits names its operation, and no operation commits
    outside a transaction. A commit outside that names no operation (an offset reset) does not matter.
    """
    counts = raw.texts(run, "offsets")
    return sorted(group for group in groups if _all_named(counts.get(group)))


def _all_named(count: Counter[str] | None) -> bool:
    if count is None:
        return True  # no offset commit of the group is stored, so all of its commits are gone
    return bool(count["within"]) and not count["unnamed"] and not count["outside"]


def rows_of_journals(journals: Iterable[Row], raw: Tally) -> list[Row]:
    """Make the rows of the table `journals`: one for each journal.

    Columns:
        run, journal, role, ended, missing_lines
        ops: the number of operations that the journal had
        counted: the number of its operations that are stored
        unbroken: no line is missing, and all of its operations are stored
        intact: `unbroken`, and its last line is not torn
    """
    return [_journal(journal, raw) for journal in journals]


def _journal(journal: Row, raw: Tally) -> Mapping[str, Any]:
    counted = raw.texts(journal["run"], "ops").get(journal["journal"], {"rows": 0})["rows"]
    unbroken = journal["missing_lines"] == 0 and counted == journal["ops"]
    return {
        **journal,
        "counted": counted,
        "unbroken": unbroken,
        "intact": unbroken and journal["torn_lines"] == 0,
    }
