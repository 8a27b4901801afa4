"""By input: what it must lead to, what it led to, and how far its group went."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.stored.partitions import EFFECTIVE
from checkers.stored.sources import Sources

OFFSETS_TOPIC = "__consumer_offsets"


def make_groups(s: Sources, runs: DataFrame, positions: DataFrame, operations: DataFrame) -> DataFrame:
    """run, group, tp; first (the lowest offset at which a member began), final (the last committed offset: by
    position in the log where there is one, else the highest that a committed operation claimed).
    """
    began = (
        s["assignments"]
        .where("gained and offset >= 0")
        .select("run", "group", "tp", F.col("offset").alias("first"))
    )
    claimed = operations.select("run", "settled", F.explode("claims").alias("claim")).select(
        "run",
        "claim.group",
        "claim.tp",
        "claim.first",
        F.when(F.col("settled") == "committed", F.col("claim.next")).alias("next"),
    )
    commits = (
        positions.where("commit is not null")
        .where(F.col("fate").isin(*EFFECTIVE))
        .select(
            "run",
            "commit.group",
            "commit.tp",
            F.when(F.col("commit.committed").isNotNull(), F.struct("offset", "commit.committed")).alias(
                "commit"
            ),
        )
    )
    return (
        began.unionByName(claimed, allowMissingColumns=True)
        .unionByName(commits, allowMissingColumns=True)
        .groupBy("run", "group", "tp")
        .agg(
            F.min("first").alias("first"),
            F.max("commit").alias("commit"),
            F.max("next").alias("next"),
        )
        .join(F.broadcast(runs.select("run", "commits_logged")), on="run", how="left")
        .select(
            "run",
            "group",
            "tp",
            "first",
            F.when(F.col("commits_logged"), F.col("commit.committed"))
            .otherwise(F.col("next"))
            .alias("final"),
        )
    )


def make_ranges(runs: DataFrame, operations: DataFrame, moves: DataFrame) -> DataFrame:
    """By run, group and tp, what the group's commits say of its starts and of each other.

    A range, from the first input of an operation to the offset that it committed: op, first, next; effective
    (as part of a transaction, with fate commit); overlaps [next, op, first]: of the effective ones that begin
    before it, the one that ends last. A start (see `checkers.stored.position_events`): op, n, first (the offset),
    gained_ns; stale [next, op]: the highest offset of which a commit had completed ok before the
    partition was gained; one that was part of a transaction stands in the log too, where that is here.
    """
    claimed = operations.select(
        "run",
        "op",
        "told",
        F.col("operation.f").alias("f"),
        F.col("operation.return_ns").alias("time_ns"),
        "commits",
        F.explode("claims").alias("claim"),
    )
    outside = F.col("f") == "commit-offsets"
    own = F.filter("commits", lambda c: (c["tp"] == F.col("claim.tp")) & c["transactional"])
    told = claimed.join(F.broadcast(runs.select("run", "commits_logged")), on="run", how="left")
    commits = told.withColumn("own", own).select(
        "run",
        "claim.group",
        "claim.tp",
        "op",
        "claim.first",
        "claim.next",
        "time_ns",
        (
            (F.col("told") == "committed")
            & ((F.size("own") > 0) | outside | ~F.col("commits_logged"))
            & F.col("time_ns").isNotNull()
        ).alias("completed"),
        F.exists("own", lambda c: F.coalesce(c["effect"] == "commit", F.lit(False))).alias("effective"),
    )
    starts = moves.where("move = 'start'").select(
        "run", "group", "tp", "op", "n", F.col("offset").alias("first"), "gained_ns",
        F.col("gained_ns").alias("time_ns"), F.lit(False).alias("completed"), F.lit(False).alias("effective"),
    )  # fmt: skip
    by_group = Window.partitionBy("run", "group", "tp")
    sooner = by_group.orderBy("time_ns").rangeBetween(Window.unboundedPreceding, -1)
    lower = by_group.orderBy("first", "next", "op").rowsBetween(Window.unboundedPreceding, -1)
    return (
        commits.unionByName(starts, allowMissingColumns=True)
        .withColumn("stale", F.max(F.when(F.col("completed"), F.struct("next", "op"))).over(sooner))
        .withColumn(
            "overlaps", F.max(F.when(F.col("effective"), F.struct("next", "op", "first"))).over(lower)
        )
    )


def make_inputs(
    s: Sources, tps: DataFrame, positions: DataFrame, values: DataFrame, operations: DataFrame
) -> DataFrame:
    """run, tp, offset, in_topic; expected [group, stage, slot, topic, digest]; adds [group, topic, key,
    adds]; outputs [slot, topic, tp, offset, name, op, visible, digest, sole (it names no other input), claims
    (its operation claims inputs)]; claims [op, group, settled, transactional, writes]; judgeable (absence of
    the input may be judged); fate, visible: of the input.
    """
    here = positions.where("is_input and not sentinel").select(
        "run",
        "tp",
        "offset",
        F.struct("visible", "fate").alias("here"),
    )
    united = here
    for part in (_expected(s), _outputs(values), _claims(operations)):
        united = united.unionByName(part, allowMissingColumns=True)
    edges = tps.select(
        "run",
        "tp",
        F.col("topic").alias("in_topic"),
        "logged",
        "compacted",
        "log_start",
        "rc_first",
        "rc_next",
    )
    return (
        united.groupBy("run", "tp", "offset")
        .agg(
            F.first("here", ignorenulls=True).alias("here"),
            F.collect_list("expected").alias("expected"),
            F.collect_list("add").alias("adds"),
            F.array_sort(F.collect_list("output")).alias("outputs"),
            F.array_sort(F.collect_list("claim")).alias("claims"),
        )
        .join(F.broadcast(edges), on=["run", "tp"], how="left")
        .select(
            "run",
            "tp",
            "offset",
            "in_topic",
            F.coalesce("here.visible", F.lit(False)).alias("visible"),
            "here.fate",
            _judgeable().alias("judgeable"),
            "expected",
            "adds",
            "outputs",
            "claims",
        )
    )


def _judgeable() -> Column:
    """Absence of an input may be judged: its place is in the log that is here, or was read."""
    logged = F.col("offset") >= F.col("log_start")
    read = (F.col("offset") >= F.col("rc_first")) & (F.col("offset") < F.col("rc_next"))
    return F.coalesce(~F.col("compacted") & F.when(F.col("logged"), logged).otherwise(read), F.lit(False))


def _expected(s: Sources) -> DataFrame:
    """What each input must lead to: an output, or something added to a sum."""
    sums = F.col("adds").isNotNull()
    return s["expected"].select(
        "run",
        "tp",
        "offset",
        F.when(~sums, F.struct("group", "stage", "slot", "topic", "digest")).alias("expected"),
        F.when(sums, F.struct("group", "topic", "key", "adds")).alias("add"),
    )


def _outputs(values: DataFrame) -> DataFrame:
    """By input, the outputs that name it."""
    return (
        values.select("run", "name", "send", F.explode_outer("places").alias("place"))
        .select("run", "name", "send", "place", F.coalesce("place.inputs", "send.inputs").alias("inputs"))
        .select(
            "run", "name", "send", "place", F.size("inputs").alias("many"), F.explode("inputs").alias("input")
        )
        .select(
            "run",
            "input.tp",
            "input.offset",
            F.struct(
                F.coalesce("place.slot", "send.slot").alias("slot"),
                F.coalesce("place.topic", "send.topic").alias("topic"),
                "place.tp",
                "place.offset",
                "name",
                "send.op",
                F.coalesce("place.visible", F.lit(False)).alias("visible"),
                "place.digest",
                (F.col("many") == 1).alias("sole"),
                F.coalesce("send.claims", F.lit(False)).alias("claims"),
            ).alias("output"),
        )
    )


def _claims(operations: DataFrame) -> DataFrame:
    """By input, the operations that claim to have gone beyond it."""
    return (
        operations.select(
            "run",
            "op",
            "settled",
            "transactional",
            (F.size("records") > 0).alias("writes"),
            F.explode("claims").alias("claim"),
        )
        .where("claim.next > claim.first")
        .select(
            "run",
            "claim.tp",
            F.explode(F.sequence("claim.first", F.col("claim.next") - 1)).alias("offset"),
            F.struct("op", "claim.group", "settled", "transactional", "writes").alias("claim"),
        )
    )
