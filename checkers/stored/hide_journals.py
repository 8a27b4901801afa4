"""Check runs of workloads as if their pipelines kept no journals: remove all records of workers from the tables.

The evidence that remains is what any pipeline leaves: the broker logs, the journals of the run's own feeder, observers
and final readers, and the correlation keys that join outputs to inputs.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.frames import broadcast
from checkers.stored.attempts import JOURNAL_OF
from checkers.stored.sources import Sources, StoredRun
from harness.model.vocabulary import Role


def hide_journals(s: Sources, runs: Sequence[StoredRun]) -> Sources:
    """Return the tables without the records of workers, for the runs that have `blind` set."""
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
    hidden = {table: _without_workers(s[table], workers) for table in ("journals", "ops", "assignments")}
    flagged = blind.selectExpr("run", "true as blinded")
    kept_ops = hidden["ops"].selectExpr("run", "op", "true as others")
    hidden |= {table: _of_other_roles(s[table], kept_ops, flagged) for table in ("sends", "claims", "polls")}
    overrides = {
        # Only a tombstone has no metadata.
        "offsets": {"op": "null", "metadata": "if(committed is null, null, '')"},
        "stages": {"journaled": "false"},
    }
    return {
        **s,
        **hidden,
        **{table: _with_overrides(s[table], flagged, columns) for table, columns in overrides.items()},
        "records": _without_worker_values(s["records"], workers),
        "polls": _without_worker_values(hidden["polls"], workers),
    }


def _without_workers(table: DataFrame, workers: DataFrame) -> DataFrame:
    return table.join(broadcast(workers), on=["run", "journal"], how="left_anti")


def _of_other_roles(table: DataFrame, kept_ops: DataFrame, flagged: DataFrame) -> DataFrame:
    """Keep the rows of operations of feeders, observers and final readers; in other runs keep every row."""
    return (
        table.join(broadcast(flagged), on="run", how="left")
        .join(kept_ops, on=["run", "op"], how="left")
        .where("blinded is null or others")
        .select(*table.columns)
    )


def _with_overrides(table: DataFrame, flagged: DataFrame, columns: dict[str, str]) -> DataFrame:
    """Replace columns by the SQL in `columns`, in the rows of blind runs."""
    types = {field.name: field.dataType.simpleString() for field in table.schema}
    return table.join(broadcast(flagged), on="run", how="left").selectExpr(
        *(
            f"if(blinded, cast({columns[name]} as {kind}), {name}) as {name}" if name in columns else name
            for name, kind in types.items()
        )
    )


def _without_worker_values(table: DataFrame, workers: DataFrame) -> DataFrame:
    """Remove the values of the records that workers sent."""
    named = workers.selectExpr("run", "journal as sender", "true as hidden")
    columns = [f"if(hidden, null, {name}) as {name}" if name == "value" else name for name in table.columns]
    return (
        table.select("*", F.expr(JOURNAL_OF).alias("sender"))
        .join(broadcast(named), on=["run", "sender"], how="left")
        .selectExpr(*columns)
    )
