"""The shared tables that are small, however long a run was: made here, of rows, and of what is counted of the others.

They go with each query that looks at them. Spark needs no job to send them on.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from checkers.spark.checkpoint import collected, here
from checkers.stored.partitions import TOPICS, TPS, rows_of_topics, rows_of_tps
from checkers.stored.raw import count_raw
from checkers.stored.runs import JOURNALS, RUNS, rows_of_journals, rows_of_runs
from checkers.stored.sources import Sources
from checkers.stored.tally import Row, Tally

RECORDED = ("partitions", "replicas", "ends", "stages", "journals", "runs")
"""The recorded tables of which they are made."""


@dataclass(frozen=True)
class Small:
    """The columns of each stand at the function that makes its rows."""

    runs: DataFrame
    tps: DataFrame
    topics: DataFrame
    journals: DataFrame
    raw: Tally  # what is counted of the recorded tables
    facts: Mapping[str, Sequence[Row]]  # by kind, tables of which each row is a fact of its run


def make_small(sources: Sources) -> Small:
    """All of them."""
    spark = sources["runs"].sparkSession
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="raw") as pool:
        counting = pool.submit(count_raw, sources)
        recorded = {name: collected(sources[name]) for name in RECORDED}
        stages, ends = recorded["stages"], recorded["ends"]
        tps = rows_of_tps(recorded["partitions"], recorded["replicas"], ends, stages)
        raw = counting.result()
    journals = rows_of_journals(recorded["journals"], raw)
    return Small(
        runs=_table(spark, rows_of_runs(recorded["runs"], tps, stages, raw), RUNS),
        tps=_table(spark, tps, TPS),
        topics=_table(spark, rows_of_topics(tps, raw), TOPICS),
        journals=_table(spark, journals, JOURNALS),
        raw=raw,
        facts={"partition": tps, "journal": journals, "end": ends, "stage": stages},
    )


def _table(spark: SparkSession, rows: Iterable[Row], schema: pa.Schema) -> DataFrame:
    return here(spark, pa.Table.from_pylist(list(rows), schema))
