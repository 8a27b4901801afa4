"""Make the shared tables whose size does not grow with the run, in Python from recorded rows and counts.

They are inlined into each query that uses them, so Spark needs no job to distribute them.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from checkers.spark.frames import local_rows, local_table
from checkers.stored.partition_tables import (
    ORDERS,
    TOPICS,
    TPS,
    mixed_topics,
    rows_of_orders,
    rows_of_topics,
    rows_of_tps,
)
from checkers.stored.recorded_counts import (
    ReplicaOffsets,
    count_recorded,
    read_outputs_due,
    read_replica_offsets,
)
from checkers.stored.runs import JOURNALS, RUNS, rows_of_journals, rows_of_runs
from checkers.stored.sources import Sources
from checkers.stored.tally import Row, Tally
from harness.record.schema import LOG

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
