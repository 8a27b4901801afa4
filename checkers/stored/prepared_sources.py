"""Change the recorded tables before the shared tables are made: hide journals, and join outputs to their inputs.

**Hidden journals.** A run of a workload can be checked as if its pipeline kept no journals: all records of workers are
removed from the tables. The evidence that remains is what any pipeline leaves: the broker logs, the journals of the
run's own feeder, observers and final readers, and the correlation keys that join outputs to inputs.

**Correlation keys.** Outputs that do not name their inputs are joined to inputs by topic and correlation key. The final
readers record a correlation key for each such output: a field, a header, the record key, or the whole content. For each
input they record the correlation keys of the outputs that it must lead to. Several inputs and several outputs can have
the same key. They are matched in this order:

- Outputs whose digest is expected are matched with the expected outputs of that digest, both in offset order. If there
  are more outputs than expected outputs, the rest is matched with the last expected output of that digest.
- Outputs with another digest are matched with the expected outputs that no visible output has met so far.
- If no expected output is left, an output is matched with the last expected output, which then has too many.

Visible outputs are matched separately from those that are not visible.

A changed table is computed once, because dozens of queries and comparisons read it.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.frames import broadcast, checkpoint, store_changed
from checkers.stored.operations import JOURNAL_OF
from checkers.stored.sources import Sources, StoredRun
from harness.model.vocabulary import Role


def hide_journals(s: Sources, runs: Sequence[StoredRun]) -> Sources:
    """Return the tables without the records of workers, for the runs that have `blind` set."""
    if not any(run.blind for run in runs):
        return s
    blind = s["runs"].where("blind").select("run")
    workers = checkpoint(
        s["journals"]
        .where(f"role = '{Role.WORKER.value}'")
        .join(broadcast(blind), on="run", how="left_semi")
        .select("run", "journal")
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
    changed = {
        **hidden,
        **{table: _with_overrides(s[table], flagged, columns) for table, columns in overrides.items()},
        "records": _without_worker_values(s["records"], workers),
        "polls": _without_worker_values(hidden["polls"], workers),
    }
    return _with_changed(s, changed)


def _with_changed(s: Sources, changed: Mapping[str, DataFrame]) -> Sources:
    return {**s, **{table: store_changed(frame, s[table]) for table, frame in changed.items()}}


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


BY = "partition by run, topic, correlation_key"
ALIKE = f"{BY}, digest"


def join_by_correlation_key(s: Sources, runs: Sequence[StoredRun]) -> Sources:
    """Fill in `inputs` and `output_name` of `records`, where outputs have a correlation key.

    Both columns stay as they are for an output that matches no expected output.
    """
    if not any(run.correlated for run in runs):
        return s
    outputs = checkpoint(_outputs(s))
    expected = checkpoint(_expected_outputs(s, outputs))
    matches = _match_same_digest(outputs, expected).unionByName(_match_other_digest(outputs, expected))
    columns = {
        "output_name": "coalesce(of_output_name, output_name) as output_name",
        "inputs": "if(of_tp is null, inputs, array(struct(of_tp as tp, of_offset as offset))) as inputs",
    }
    correlated = s["records"].join(matches, on=["run", "tp", "offset"], how="left")
    records = correlated.selectExpr(*(columns.get(name, name) for name in s["records"].columns))
    return _with_changed(s, {"records": records})


def _outputs(s: Sources) -> DataFrame:
    """Select the outputs that have a correlation key.

    Columns:
        run, tp, offset, topic, correlation_key, digest
        visible: the final read-committed reader received it
        rank: its number among the outputs with the same digest, from 1
    """
    return (
        s["records"]
        .where("correlation_key is not null")
        .join(broadcast(s["partitions"].select("run", "tp", "topic")), on=["run", "tp"])
        .join(_visible_records(s), on=["run", "tp", "offset"], how="left")
        .selectExpr(
            *(
                "run",
                "tp",
                "offset",
                "topic",
                "correlation_key",
                "digest",
                "coalesce(visible, false) as visible",
            ),
            f"row_number() over ({ALIKE}, coalesce(visible, false) order by tp, offset) as rank",
        )
    )


def _expected_outputs(s: Sources, outputs: DataFrame) -> DataFrame:
    """Select the expected outputs that have a correlation key.

    Columns:
        run, topic, correlation_key, digest
        of_tp, of_offset, of_output_name: the input, and which of its outputs this is
        rank, most: number and count among the expected outputs with the same digest
        expected_rank, expected_count: number and count among all expected outputs with the same correlation key
        met: a visible output has this digest and rank
        left_rank, left_most: number and count among those with the same correlation key that are not met
    """
    visible_counts = (
        outputs.where("visible")
        .groupBy("run", "topic", "correlation_key", "digest")
        .agg(F.expr("count(1) as visible_count"))
    )
    order = "order by tp, offset, output_name"
    ranked = (
        s["expected"]
        .where("correlation_key is not null and adds is null")
        .selectExpr(
            *(
                "run",
                "topic",
                "correlation_key",
                "digest",
                "tp as of_tp",
                "offset as of_offset",
                "output_name as of_output_name",
            ),
            *(f"row_number() over ({ALIKE} {order}) as rank", f"count(1) over ({ALIKE}) as most"),
            *(
                f"row_number() over ({BY} {order}) as expected_rank",
                f"count(1) over ({BY}) as expected_count",
            ),
        )
        .join(visible_counts, on=["run", "topic", "correlation_key", "digest"], how="left")
        .selectExpr("*", "coalesce(rank <= visible_count, false) as met")
    )
    return ranked.selectExpr(
        "*",
        f"count_if(not met) over ({BY} order by expected_rank) as left_rank",
        f"count_if(not met) over ({BY}) as left_most",
    )


PAIR = ("run", "tp", "offset", "of_tp", "of_offset", "of_output_name")


def _match_same_digest(outputs: DataFrame, expected: DataFrame) -> DataFrame:
    """Match each output with the expected output of the same digest and rank, or with the last one of that digest."""
    keys = ["run", "topic", "correlation_key", "digest"]
    most = expected.where("rank = 1").select(*keys, "most")
    ranked_outputs = outputs.join(most, on=keys).withColumn("rank", F.expr("least(rank, most)"))
    return (
        ranked_outputs.select("run", "tp", "offset", *keys[1:], "rank")
        .join(expected, on=[*keys, "rank"])
        .select(*PAIR)
    )


def _match_other_digest(outputs: DataFrame, expected: DataFrame) -> DataFrame:
    """Match each output of another digest with an expected output that is not met. If none is left, take the last
    one.
    """
    keys = ["run", "topic", "correlation_key"]
    expected_digests = expected.select(*keys, "digest").distinct()
    unmatched = outputs.join(expected_digests, on=[*keys, "digest"], how="left_anti").selectExpr(
        *("run", "tp", "offset", "topic", "correlation_key"),
        f"row_number() over ({BY}, visible order by tp, offset) as rank",
    )
    sizes = expected.where("expected_rank = 1").select(*keys, "expected_count", "left_most")
    ranks = unmatched.join(sizes, on=keys).selectExpr(
        *("run", "tp", "offset", "topic", "correlation_key"),
        "if(left_most > 0, least(rank, left_most), expected_count) as rank",
        "left_most > 0 as left",
    )
    unmet = expected.where("not met and left_most > 0").selectExpr("*", "true as left", "left_rank as wanted")
    last = expected.where("left_most = 0 and expected_rank = expected_count").selectExpr(
        "*", "false as left", "expected_rank as wanted"
    )
    candidates = unmet.unionByName(last).drop("rank").withColumnRenamed("wanted", "rank")
    return ranks.join(candidates, on=[*keys, "left", "rank"]).select(*PAIR)


def _visible_records(s: Sources) -> DataFrame:
    """Select the records that the final read-committed reader received."""
    return (
        s["polls"].where(f"role = '{Role.FINAL.value}'").selectExpr("run", "tp", "offset", "true as visible")
    )
