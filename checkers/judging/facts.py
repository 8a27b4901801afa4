"""Small facts of each run, counted in the job of the findings, that say whether the evidence is whole.

`checkers.judging.completeness` holds them against each other.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.stored.sources import Sources
from checkers.stored.tables import Tables

Row = Mapping[str, Any]


def evidence(s: Sources, t: Tables) -> DataFrame:
    """Small facts of each run: run, kind, detail (JSON)."""
    parts = [
        _rows(_partitions(t), "partition"),
        _rows(t.journals, "journal"),
        _rows(
            s["ends"].select("run", "journal", "isolation", "tp", "next", "read", "sentinel_offset", "role"),
            "end",
        ),
        _rows(s["stages"], "stage"),
        _rows(_operations(t), "operations"),
        _rows(_values(t), "values"),
        _rows(_inputs(t), "inputs"),
        *(
            _rows(s[table].groupBy("run").agg(F.count(F.lit(1)).alias(table)), table)
            for table in ("transactions", "assignments", "claims")
        ),
    ]
    united = parts[0]
    for part in parts[1:]:
        united = united.unionByName(part)
    return united


def _rows(frame: DataFrame, kind: str) -> DataFrame:
    body = [column for column in frame.columns if column != "run"]
    return frame.select("run", F.lit(kind).alias("kind"), F.to_json(F.struct(*body)).alias("detail"))


def _partitions(t: Tables) -> DataFrame:
    in_reach = (
        (F.col("offset") >= F.col("ru_first")) & (F.col("offset") < F.col("ru_next")) & ~F.col("compacted")
    )
    counted = (
        t.positions.join(
            F.broadcast(t.tps.select("run", "tp", "ru_first", "ru_next", "ru_end", "compacted")),
            on=["run", "tp"],
            how="inner",
        )
        .groupBy("run", "tp")
        .agg(
            _count(F.col("found")).alias("found"),
            _count(F.col("held")).alias("held"),
            _count(F.col("given")).alias("given"),
            _count(F.col("given") & ~F.col("sentinel")).alias("read"),
            _count(F.col("consumed")).alias("consumed"),
            F.sum("observed").alias("observed"),
            _count(F.col("visible") & ~F.col("sentinel")).alias("visible"),
            _count(F.col("held") & ~F.col("found") & in_reach).alias("unread"),
            _count(F.col("held") & F.col("ru_end") & (F.col("offset") >= F.col("ru_next"))).alias("beyond"),
            _count(F.col("found") & ~F.col("held") & F.col("covered")).alias("read_not_in_log"),
            _count(F.col("commit").isNotNull()).alias("commits"),
            _count(F.col("visible") & F.col("is_input") & ~F.col("sentinel")).alias("inputs"),
            _count(F.col("visible") & (F.size("inputs") > 0)).alias("outputs"),
        )
    )
    return t.tps.join(counted, on=["run", "tp"], how="left")


def _inputs(t: Tables) -> DataFrame:
    return t.inputs.groupBy("run").agg(
        F.sum(F.size("expected")).alias("expected"), F.sum(F.size("adds")).alias("sums")
    )


def _operations(t: Tables) -> DataFrame:
    told = t.operations.where("operation.f != 'init'")
    txn = F.col("operation.f") == "txn"
    writes = F.col("operation.f") != "poll"
    return told.groupBy("run").agg(
        F.count(F.lit(1)).alias("ops"),
        *(_count(F.col("operation.outcome") == outcome).alias(outcome) for outcome in ("ok", "fail", "info")),
        _count(txn & (F.col("settled") == "committed")).alias("committed"),
        _count(txn & (F.col("settled") == "aborted")).alias("aborted"),
        _count(writes & (F.col("settled") == "committed")).alias("effective"),
        _count(writes & (F.col("settled") == "committed") & F.col("operation.stage").isNotNull()).alias(
            "effective_of_stages"
        ),
        _count(txn & (F.col("told") == "committed")).alias("acknowledged"),
        _count((F.col("told") == "committed") & (F.size("claims") > 0)).alias("claiming"),
        _count(F.col("operation.fenced")).alias("fenced"),
    )


def _values(t: Tables) -> DataFrame:
    stray = t.values.where("send is null").select(
        "run", F.regexp_extract("value", r"^(.+):\d+:\d+$", 1).alias("journal")
    )
    unknown = (
        stray.where("journal != ''")
        .join(F.broadcast(t.journals.select("run", "journal")), on=["run", "journal"], how="left_anti")
        .groupBy("run")
        .agg(F.slice(F.array_sort(F.collect_set("journal")), 1, 5).alias("unknown_journals"))
    )
    sent = t.values.groupBy("run").agg(
        _count(F.col("send").isNotNull()).alias("sent"), F.count(F.lit(1)).alias("values")
    )
    return sent.join(unknown, on="run", how="left")


def _count(condition: Column) -> Column:
    return F.count(F.when(condition, F.lit(1)))
