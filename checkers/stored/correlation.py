"""Outputs that do not name their inputs, joined to them by what they hold.

The final readers say of each such output what it is `about` (a field, a header, its key, or all that it holds), and of
each input what the outputs that it must lead to are to be about. Of one topic and one `about` there may be several of
each. Those that hold what is due account for that first, the first for what is due first; the others for what is left.
Outputs beyond all that is due account for what is due last, which then has too many. Visible outputs and others apart.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast
from checkers.stored.sources import Sources, StoredRun
from harness.model.vocabulary import Role

BY = "partition by run, topic, correlation_key"
ALIKE = f"{BY}, digest"


def join_by_correlation_key(s: Sources, runs: Sequence[StoredRun]) -> Sources:
    """`records` with the inputs and output names of such outputs; of what nothing accounts for they stay empty."""
    if not any(run.correlated for run in runs):
        return s
    outputs = _outputs(s)
    due = _due(s, outputs)
    found = _alike(outputs, due).unionByName(_others(outputs, due))
    columns = {
        "output_name": "coalesce(of_output_name, output_name) as output_name",
        "inputs": "if(of_tp is null, inputs, array(struct(of_tp as tp, of_offset as offset))) as inputs",
    }
    correlated = s["records"].join(found, on=["run", "tp", "offset"], how="left")
    return {
        **s,
        "records": correlated.selectExpr(*(columns.get(name, name) for name in s["records"].columns)),
    }


def _outputs(s: Sources) -> DataFrame:
    """run, tp, offset, topic, about, digest, visible; rank (among those that hold the same)."""
    return (
        s["records"]
        .where("correlation_key is not null")
        .join(broadcast(s["partitions"].select("run", "tp", "topic")), on=["run", "tp"])
        .join(_visible(s), on=["run", "tp", "offset"], how="left")
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


def _due(s: Sources, outputs: DataFrame) -> DataFrame:
    """run, topic, about, digest, of_tp, of_offset, of_output_name; rank, most (among those that must hold the same);
    met (a visible output holds it); left_rank, left_most (among those that are not met); place, places (among all).
    """
    there = (
        outputs.where("visible")
        .groupBy("run", "topic", "correlation_key", "digest")
        .agg(F.expr("count(1) as there"))
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
            *(f"row_number() over ({BY} {order}) as place", f"count(1) over ({BY}) as places"),
        )
        .join(there, on=["run", "topic", "correlation_key", "digest"], how="left")
        .selectExpr("*", "coalesce(rank <= there, false) as met")
    )
    return ranked.selectExpr(
        "*",
        f"count_if(not met) over ({BY} order by place) as left_rank",
        f"count_if(not met) over ({BY}) as left_most",
    )


PAIR = ("run", "tp", "offset", "of_tp", "of_offset", "of_output_name")


def _alike(outputs: DataFrame, due: DataFrame) -> DataFrame:
    """Each output that holds what is due, with what is due: the first with the first, those too many with the last."""
    by = ["run", "topic", "correlation_key", "digest"]
    most = due.where("rank = 1").select(*by, "most")
    placed = outputs.join(most, on=by).withColumn("rank", F.expr("least(rank, most)"))
    return placed.select("run", "tp", "offset", *by[1:], "rank").join(due, on=[*by, "rank"]).select(*PAIR)


def _others(outputs: DataFrame, due: DataFrame) -> DataFrame:
    """Each output that holds something else, with what is due of the same and was not met; else with the last."""
    by = ["run", "topic", "correlation_key"]
    known = due.select(*by, "digest").distinct()
    others = outputs.join(known, on=[*by, "digest"], how="left_anti").selectExpr(
        *("run", "tp", "offset", "topic", "correlation_key"),
        f"row_number() over ({BY}, visible order by tp, offset) as rank",
    )
    sizes = due.where("place = 1").select(*by, "places", "left_most")
    wanted = others.join(sizes, on=by).selectExpr(
        *("run", "tp", "offset", "topic", "correlation_key"),
        "if(left_most > 0, least(rank, left_most), places) as rank",
        "left_most > 0 as left",
    )
    offered = due.where("not met and left_most > 0").selectExpr("*", "true as left", "left_rank as wanted")
    last = due.where("left_most = 0 and place = places").selectExpr("*", "false as left", "place as wanted")
    owed = offered.unionByName(last).drop("rank").withColumnRenamed("wanted", "rank")
    return wanted.join(owed, on=[*by, "left", "rank"]).select(*PAIR)


def _visible(s: Sources) -> DataFrame:
    """What the final read-committed reader was given."""
    return (
        s["polls"].where(f"role = '{Role.FINAL.value}'").selectExpr("run", "tp", "offset", "true as visible")
    )
