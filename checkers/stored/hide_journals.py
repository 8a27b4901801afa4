"""Runs that are judged as if their pipelines had kept no journals: what workers said is left out of every table.

What is left is what any pipeline leaves: the brokers' logs, what this run's own feeder, observers and final readers
said, and by what outputs are joined to their inputs.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast
from checkers.stored.attempts import JOURNAL_OF
from checkers.stored.sources import Sources, StoredRun
from harness.model.vocabulary import Role


def hide_journals(s: Sources, runs: Sequence[StoredRun]) -> Sources:
    """The tables without what the workers of those runs said that are judged blind."""
    if not any(run.blind for run in runs):
        return s
    blind = s["runs"].where("blind").select("run")
    workers = (
        s["journals"]
        .where(f"role = '{Role.WORKER.value}'")
        .join(broadcast(blind), on="run", how="left_semi")
        .select("run", "journal")
        .localCheckpoint()
    )
    hidden = {table: _without(s[table], workers) for table in ("journals", "ops", "assignments")}
    flagged = blind.selectExpr("run", "true as blinded")
    others = hidden["ops"].selectExpr("run", "op", "true as others")
    hidden |= {table: _of(s[table], others, flagged) for table in ("sends", "claims", "polls")}
    said = {
        "offsets": {"op": "null", "metadata": "null"},
        "stages": {"journaled": "false"},
    }
    return {
        **s,
        **hidden,
        **{table: _changed(s[table], flagged, columns) for table, columns in said.items()},
        "records": _unnamed(s["records"], workers),
        "polls": _unnamed(hidden["polls"], workers),
    }


def _without(table: DataFrame, workers: DataFrame) -> DataFrame:
    return table.join(broadcast(workers), on=["run", "journal"], how="left_anti")


def _of(table: DataFrame, others: DataFrame, flagged: DataFrame) -> DataFrame:
    """Of runs that are judged blind what belongs to an operation of others than workers."""
    return (
        table.join(broadcast(flagged), on="run", how="left")
        .join(others, on=["run", "op"], how="left")
        .where("blinded is null or others")
        .select(*table.columns)
    )


def _changed(table: DataFrame, flagged: DataFrame, columns: dict[str, str]) -> DataFrame:
    """With other cells in the rows of runs that are judged blind."""
    types = {field.name: field.dataType.simpleString() for field in table.schema}
    return table.join(broadcast(flagged), on="run", how="left").selectExpr(
        *(
            f"if(blinded, cast({columns[name]} as {kind}), {name}) as {name}" if name in columns else name
            for name, kind in types.items()
        )
    )


def _unnamed(table: DataFrame, workers: DataFrame) -> DataFrame:
    """Without the names that workers gave to what they sent."""
    named = workers.selectExpr("run", "journal as sender", "true as hidden")
    columns = [f"if(hidden, null, {name}) as {name}" if name == "value" else name for name in table.columns]
    return (
        table.select("*", F.expr(JOURNAL_OF).alias("sender"))
        .join(broadcast(named), on=["run", "sender"], how="left")
        .selectExpr(*columns)
    )
