"""Make the shared tables whose size does not grow with the run, in Python from recorded rows and counts.

They are inlined into each query that uses them, so Spark needs no job to distribute them. The rows of `runs` and
`journals` are made here, those of `tps`, `topics` and `orders` in `checkers.stored.partition_tables`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from checkers.spark.frames import local_rows, local_table
from checkers.stored.broker_log import TRANSACTIONS_TOPIC
from checkers.stored.partition_tables import (
    ORDERS,
    TOPICS,
    TPS,
    mixed_topics,
    rows_of_orders,
    rows_of_topics,
    rows_of_tps,
)
from checkers.stored.sources import PASSED_OVER, Sources
from checkers.stored.tally import (
    ReplicaOffsets,
    Row,
    Tally,
    count_recorded,
    read_outputs_due,
    read_replica_offsets,
)
from harness.model.promises import OFFSETS_TOPIC
from harness.record.schema import LOG

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
REPLICAS = LOG["replicas"].append(pa.field("reached", pa.int64())).append(pa.field("whole", pa.bool_()))
REPLICAS = REPLICAS.append(pa.field("agrees", pa.bool_())).append(pa.field("holes", pa.int64()))
"""The columns of the table `replicas`: the recorded columns, and those listed below.

Columns:
    reached: the offset after its last batch; null: it has no batch
    whole: see `ReplicaOffsets`
    agrees: the table `batches` names the same leader
    holes: the number of offsets between its log start and its last batch that no batch spans
"""
RECORDED = ("partitions", "replicas", "ends", "stages", "journals", "runs")
"""The recorded tables from which the small tables are made."""


@dataclass(frozen=True)
class SmallTables:
    """The small shared tables. The columns of each are listed at the function that makes its rows."""

    runs: DataFrame
    tps: DataFrame
    topics: DataFrame
    orders: DataFrame
    journals: DataFrame
    replicas: DataFrame
    raw: Tally  # counts of the recorded tables
    facts: Mapping[str, Sequence[Row]]  # by kind of fact: rows that are each a fact of their run


def make_small_tables(sources: Sources) -> SmallTables:
    spark = sources["runs"].sparkSession
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="raw") as pool:
        counting = pool.submit(count_recorded, sources)
        reading = pool.submit(read_replica_offsets, sources)
        recorded = {name: local_rows(sources[name]) for name in RECORDED}
        stages, ends = recorded["stages"], recorded["ends"]
        raw, offsets = counting.result(), reading.result()
    replicas = [
        _replica(row, offsets.get((row["run"], row["tp"], row["broker"]))) for row in recorded["replicas"]
    ]
    runs = recorded["runs"]
    outputs_due = read_outputs_due(sources, mixed_topics(stages))
    orders = rows_of_orders(stages, outputs_due)
    intermediate = [
        {"run": run, "topic": topic} for run, _, _, topic, _, between in outputs_due if between is not None
    ]
    tps = rows_of_tps(recorded["partitions"], replicas, ends, stages, runs, raw)
    of_runs = rows_of_runs(runs, tps, stages, raw)
    commits = [{name: row[name] for name in ("run", "named_groups", "offsets_whole")} for row in of_runs]
    journals = rows_of_journals(recorded["journals"], raw)
    return SmallTables(
        runs=_table(spark, of_runs, RUNS),
        tps=_table(spark, tps, TPS),
        topics=_table(spark, rows_of_topics(tps, raw), TOPICS),
        orders=_table(spark, orders, ORDERS),
        journals=_table(spark, journals, JOURNALS),
        replicas=_table(spark, replicas, REPLICAS),
        raw=raw,
        facts={
            "partition": tps,
            "journal": journals,
            "end": ends,
            "stage": stages,
            "replica": replicas,
            "commits": commits,
            "intermediate": intermediate,
        },
    )


def _replica(row: Row, offsets: ReplicaOffsets | None) -> Row:
    agrees = offsets is None or (offsets.leads if row["leader"] else offsets.follows)
    return {
        **row,
        "reached": offsets.next if offsets else None,
        "whole": offsets is not None and offsets.whole,
        "holes": max(offsets.next - (row["log_start"] or 0) - offsets.offsets, 0) if offsets else 0,
        "agrees": agrees,
    }


def _table(spark: SparkSession, rows: Iterable[Row], schema: pa.Schema) -> DataFrame:
    return local_table(spark, pa.Table.from_pylist(list(rows), schema))


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
