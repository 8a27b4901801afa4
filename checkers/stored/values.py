"""By value: who announced it, where it stands, and what is known of its operation."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.stored.operations import told
from checkers.stored.sources import Sources


def make_values(s: Sources, positions: DataFrame) -> DataFrame:
    """run, name (the value; `@tp/offset` for a record that bears none), value, send (null: nobody announced
    it), places [tp, offset, topic, fate, visible, given, polled, slot, inputs, digest].
    """
    places = positions.where("found and not sentinel and not internal").select(
        "run",
        F.coalesce("value", F.format_string("@%d/%d", "tp", "offset")).alias("name"),
        "value",
        F.struct(
            "tp", "offset", "topic", "fate", "visible", "given", "polled", "slot", "inputs", "digest"
        ).alias("place"),
    )
    sends = _writers(s).select("run", F.col("value").alias("name"), "value", "send")
    return (
        sends.unionByName(places, allowMissingColumns=True)
        .groupBy("run", "name", "value")
        .agg(F.any_value("send", ignoreNulls=True).alias("send"), F.collect_list("place").alias("places"))
    )


def _writers(s: Sources) -> DataFrame:
    """Sends with what is known of their operation: run, value, send (a struct)."""
    journals = s["journals"].select("run", "journal", "role")
    ops = (
        s["ops"]
        .join(F.broadcast(journals), on=["run", "journal"], how="left")
        .select(
            "run",
            "op",
            "role",
            "outcome",
            "asked",
            F.col("transactional_id").isNotNull().alias("transactional"),
            "commit_ns",
        )
    )
    claiming = s["claims"].select("run", "op").distinct().withColumn("claims", F.lit(True))
    ops = ops.join(claiming, on=["run", "op"], how="left")
    return s["sends"].join(ops, on=["run", "op"], how="left").select(
        "run", "value",
        F.struct(
            "op", "n", "topic", "tp", "offset", "acked", "slot", "inputs", "digest",
            "role", "outcome", "transactional", "commit_ns", told().alias("told"),
            F.coalesce("claims", F.lit(False)).alias("claims"),
        ).alias("send"),
    )  # fmt: skip
