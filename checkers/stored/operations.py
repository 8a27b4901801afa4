"""By operation: what its client was told, and what became of its records and its offsets."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.stored.partitions import effective
from checkers.stored.sources import Sources
from harness.history import Fate, Outcome


def told() -> Column:
    """What an operation's client was told of its end: committed, aborted, or unknown."""
    return (
        F.when(
            (F.col("outcome") == Outcome.OK.value) & F.coalesce(F.col("asked") != "abort", F.lit(True)),
            "committed",
        )
        .when(F.col("outcome").isin(Outcome.OK.value, Outcome.FAIL.value), "aborted")
        .otherwise("unknown")
    )


def make_operations(s: Sources, runs: DataFrame, positions: DataFrame, values: DataFrame) -> DataFrame:
    """run, op, operation (its row in `ops`), told, transactional, settled (committed, aborted, open, none,
    unknown); records [n, value, tp, offset, acked, effect, abandoned, held, other (the position holds
    another value), covered, passed, given]; commits [tp, committed, offset, log_tp, effect,
    transactional]; claims [group, tp, first, next]. A record without an acknowledged place stands where it
    was found: it is held, and neither covered nor passed.
    """
    claims = s["claims"].select("run", "op", F.struct("group", "tp", "first", "next").alias("claim"))
    united = _operations(s)
    for part in (_acked(positions), _found(values), _commits(positions), claims):
        united = united.unionByName(part, allowMissingColumns=True)
    grouped = united.groupBy("run", "op").agg(
        F.any_value("operation", ignoreNulls=True).alias("operation"),
        F.array_sort(F.collect_list("record")).alias("records"),
        F.array_sort(F.collect_list("commit")).alias("commits"),
        F.array_sort(F.collect_list("claim")).alias("claims"),
    )
    whole = grouped.where("operation is not null").join(
        F.broadcast(runs.select("run", "commits_logged")), on="run", how="left"
    )
    return whole.select(
        "*",
        F.col("operation.told").alias("told"),
        F.col("operation.transactional_id").isNotNull().alias("transactional"),
        _settled(),
    ).drop("commits_logged")


def _operations(s: Sources) -> DataFrame:
    """What its client told of each."""
    return s["ops"].select(
        "run",
        "op",
        F.struct(
            "journal",
            "f",
            "stage",
            "fenced",
            "group",
            "transactional_id",
            "outcome",
            "asked",
            "call_ns",
            "commit_ns",
            "return_ns",
            told().alias("told"),
        ).alias("operation"),
    )


def _acked(positions: DataFrame) -> DataFrame:
    """Its records that were acknowledged, each in the place that its client was told."""
    # The position holds what was sent there, or a record of which nothing is known.
    fits = ~F.col("found") | F.col("value").eqNullSafe(F.col("ack.value"))
    return positions.select("*", F.explode("acks").alias("ack")).select(
        "run",
        "ack.op",
        F.struct(
            "ack.n",
            "ack.value",
            "tp",
            "offset",
            F.lit(True).alias("acked"),
            effective(F.when(fits, F.col("fate"))).alias("effect"),
            (~fits).alias("other"),
            F.coalesce("abandoned", F.lit(False)).alias("abandoned"),
            (F.col("held") & fits).alias("held"),
            "logged",
            "covered",
            "passed",
            "visible",
            (F.col("given") & fits).alias("given"),
        ).alias("record"),
    )


def _found(values: DataFrame) -> DataFrame:
    """Its records without such a place, each where it was found."""
    return (
        values.where("send is not null and (send.offset is null or send.offset < 0)")
        .select("run", "value", "send", F.explode("places").alias("place"))
        .select(
            "run",
            "send.op",
            F.struct(
                "send.n",
                "value",
                "place.tp",
                "place.offset",
                F.lit(False).alias("acked"),
                effective(F.col("place.fate")).alias("effect"),
                F.lit(False).alias("other"),
                F.lit(False).alias("abandoned"),
                F.lit(True).alias("held"),
                F.col("place.fate").isNotNull().alias("logged"),
                F.lit(False).alias("covered"),
                F.lit(False).alias("passed"),
                "place.visible",
                "place.given",
            ).alias("record"),
        )
    )


def _commits(positions: DataFrame) -> DataFrame:
    """Its offset commits, as they stand in the logs."""
    return positions.where("commit.op is not null").select(
        "run",
        "commit.op",
        F.struct(
            "commit.tp",
            "commit.committed",
            F.col("tp").alias("log_tp"),
            F.col("offset").alias("log_offset"),
            effective(F.col("fate")).alias("effect"),
            "commit.transactional",
            F.coalesce("abandoned", F.lit(False)).alias("abandoned"),
        ).alias("commit"),
    )


def _settled() -> Column:
    """How an operation ended: what its client was told, and what the log (else the final read) says if it
    was told nothing. `none`: it has left nothing where all that it may have left would be found: its records
    in the final read, its offset commits in their log.
    """
    fates = F.concat(
        F.transform("records", lambda r: r["effect"]), F.transform("commits", lambda c: c["effect"])
    )
    return (
        F.when(F.col("operation.told") != "unknown", F.col("operation.told"))
        .when(F.array_contains(fates, Fate.COMMIT.value), "committed")
        .when(F.array_contains(fates, Fate.ABORT.value), "aborted")
        .when(F.array_contains(fates, Fate.OPEN.value), "open")
        .when(F.exists("records", lambda r: ~r["logged"] & r["given"]), "committed")
        .when((F.size(fates) == 0) & ((F.size("claims") == 0) | F.col("commits_logged")), "none")
        .otherwise("unknown")
        .alias("settled")
    )
