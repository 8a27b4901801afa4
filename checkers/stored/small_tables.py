"""The shared tables that are small, however long a run was: made here, of rows, and of what is counted of the others.

They go with each query that looks at them. Spark needs no job to send them on.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from checkers.spark.checkpoint import local_rows, local_table
from checkers.stored.partitions import TOPICS, TPS, rows_of_topics, rows_of_tps
from checkers.stored.recorded_counts import ReplicaOffsets, count_recorded, read_replica_offsets
from checkers.stored.runs import JOURNALS, RUNS, rows_of_journals, rows_of_runs
from checkers.stored.sources import Sources
from checkers.stored.tally import Row, Tally
from harness.record.schema import LOG

REPLICAS = LOG["replicas"].append(pa.field("reached", pa.int64())).append(pa.field("whole", pa.bool_()))
REPLICAS = REPLICAS.append(pa.field("agrees", pa.bool_())).append(pa.field("holes", pa.int64()))
"""The table as recorded; reached: one above the last offset of its batches (null: it has none); whole: see
`ReplicaOffsets`; agrees: the table batches names the same leader; holes: the number of offsets between its log start
and its last batch that no batch spans."""
RECORDED = ("partitions", "replicas", "ends", "stages", "journals", "runs")
"""The recorded tables of which they are made."""


@dataclass(frozen=True)
class SmallTables:
    """The columns of each stand at the function that makes its rows."""

    runs: DataFrame
    tps: DataFrame
    topics: DataFrame
    journals: DataFrame
    replicas: DataFrame
    raw: Tally  # what is counted of the recorded tables
    facts: Mapping[str, Sequence[Row]]  # by kind, tables of which each row is a fact of its run


def make_small_tables(sources: Sources) -> SmallTables:
    """All of them."""
    spark = sources["runs"].sparkSession
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="raw") as pool:
        counting = pool.submit(count_recorded, sources)
        holding = pool.submit(read_replica_offsets, sources)
        recorded = {name: local_rows(sources[name]) for name in RECORDED}
        stages, ends = recorded["stages"], recorded["ends"]
        raw, held = counting.result(), holding.result()
    replicas = [
        _replica(one, held.get((one["run"], one["tp"], one["broker"]))) for one in recorded["replicas"]
    ]
    runs = recorded["runs"]
    tps = rows_of_tps(recorded["partitions"], replicas, ends, stages, runs, raw)
    of_runs = rows_of_runs(runs, tps, stages, raw)
    commits = [{name: one[name] for name in ("run", "named_groups", "offsets_whole")} for one in of_runs]
    journals = rows_of_journals(recorded["journals"], raw)
    return SmallTables(
        runs=_table(spark, of_runs, RUNS),
        tps=_table(spark, tps, TPS),
        topics=_table(spark, rows_of_topics(tps, raw), TOPICS),
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
        },
    )


def _replica(row: Row, held: ReplicaOffsets | None) -> Row:
    agrees = held is None or (held.leads if row["leader"] else held.follows)
    return {
        **row,
        "reached": held.next if held else None,
        "whole": held is not None and held.whole,
        "holes": max(held.next - (row["log_start"] or 0) - held.offsets, 0) if held else 0,
        "agrees": agrees,
    }


def _table(spark: SparkSession, rows: Iterable[Row], schema: pa.Schema) -> DataFrame:
    return local_table(spark, pa.Table.from_pylist(list(rows), schema))
