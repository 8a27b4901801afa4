"""By partition and process: how each process moved through a partition, as sender and as consumer.

The steps inside one operation are compared first, and of each operation and partition only the first and the
last record goes on, so that what is sorted by process is small. What the final read-committed reader was
given, but for the sentinels, in the order of the offsets, is the log whose order is known; the *index* of an
offset is how many of those records stand at or below it. A consumer that went from one index to the next but
one has skipped a record; where the final reader has not come nothing is said, nor of the final readers
themselves.

A consumer may move otherwise than onwards when its partition was taken or given, and when one of its own
operations did not commit: it must then go back. From there a new *stretch* begins, and steps are compared
inside one stretch only. A rebalance happens while a poll is under way, so of the first poll after one nothing
is said either.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.stored.sources import Sources
from harness.history import Role

ASSIGNED, DELIVERED, TOOK, COMMITTED, ENDED = range(5)
"""What a row is of, in the order in which they count at the same time."""
ENDS = (ASSIGNED, ENDED)
NEVER = (1 << 63) - 1
PLACE = ("run", "tp")


def make_moves(s: Sources, positions: DataFrame, operations: DataFrame) -> DataFrame:
    """The steps that a check may have to tell of; few, in a right run the starts alone.

    move: `skip`, `back` (from the record that the process was given before), `send-back` (a send stands below
    the process's send before), `mixed` (an operation that is no mere poll was given records), `start` (the
    first record that it was given after it had gained the partition), `ahead` (an operation committed an
    offset beyond what its process had been given, and a visible record stands between).

    run, move, tp, op, n, offset (of a commit: the last that it covers), role; inside (both belong to one
    operation); before [op, n, offset]: the step before; skipped: how many visible records stand between;
    group, gained_ns: of a start; first, given_to: of a commit, its first input, and the last record that its
    process had been given.
    """
    united = _points(s).unionByName(_events(s, operations), allowMissingColumns=True)
    rows = _indexed(united, positions.where("given and not sentinel").select(*PLACE, "offset"))
    by_process = Window.partitionBy(*PLACE, "journal", "sent").orderBy("time_ns", "kind", "op", "n")
    earlier = by_process.rowsBetween(Window.unboundedPreceding, -1)
    sofar = by_process.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    act, ends = F.col("kind") == DELIVERED, F.col("kind").isin(*ENDS)
    end = F.struct("kind", "gained", "time_ns", "group")
    step = F.struct("kind", "op", "n", "offset", "index")
    given = act | (F.col("kind") == TOOK)
    begins = act & F.coalesce(F.col("before.kind").isin(*ENDS), F.lit(True))
    stepped = (
        rows.withColumns(
            {
                "begun": F.last(F.when(ends, end), ignorenulls=True).over(sofar),
                "lost_ns": F.max(F.when(~F.col("gained"), F.col("time_ns"))).over(sofar),
                "given": F.max(F.when(given, F.col("index"))).over(earlier),
                "given_to": F.max(F.when(act, F.col("offset"))).over(earlier),
                "before": F.last(F.when(act | ends, step), ignorenulls=True).over(earlier),
            }
        )
        .withColumn("begins", begins)
        .withColumn("first_op", F.last(F.when(F.col("begins"), F.col("op")), ignorenulls=True).over(sofar))
    )
    back = F.col("move").isin("back", "send-back") & F.col("inside")
    return (
        stepped.withColumn("inside", ~F.col("begins") & (F.col("before.op") == F.col("op")))
        .withColumn("move", F.explode(F.array_compact(F.array(*_moves()))))
        .select(
            "run",
            "move",
            "tp",
            "op",
            F.when(back, F.col("back.n")).otherwise(F.col("n")).alias("n"),
            F.when(back, F.col("back.offset")).otherwise(F.col("offset")).alias("offset"),
            "role",
            "inside",
            F.when(back, F.struct("op", F.col("n").alias("n"), F.col("back.before").alias("offset")))
            .otherwise(F.struct("before.op", "before.n", "before.offset"))
            .alias("before"),
            _skipped().alias("skipped"),
            "begun.group",
            F.col("begun.time_ns").alias("gained_ns"),
            "first",
            "given_to",
        )
    )


def _skipped() -> Column:
    """How many visible records stand between a row and what its process was given before."""
    return (
        F.when(F.col("kind") == COMMITTED, F.col("index") - F.col("given"))
        .when(F.col("inside"), F.col("index") - F.col("before.index") - (F.col("many") - 1))
        .otherwise(F.col("below") - F.col("before.index"))
    )


def _moves() -> list[Column]:
    """What each row is to be told for; null: not for this."""
    polled = (F.col("kind") == DELIVERED) & ~F.col("sent")
    begins, inside = F.col("begins"), F.col("inside")
    rebalanced = F.coalesce(F.col("begun.kind") == ASSIGNED, F.lit(False))
    # The step before, or this one, may be of the poll in which the rebalance happened.
    torn = rebalanced & (F.col("before.op") == F.col("first_op"))
    calm = polled & ~begins & ~torn
    straight = F.col("back").isNull()
    lower = F.when(inside, ~straight).otherwise(F.col("offset") <= F.col("before.offset"))
    untouched = ~F.coalesce(F.col("lost_ns") >= F.col("call_ns"), F.lit(False))
    conditions = {
        "skip": calm & (~inside | straight) & (_skipped() > 0),
        "back": calm & lower,
        "start": polled & begins & rebalanced & F.col("begun.gained") & untouched,
        "ahead": (F.col("kind") == COMMITTED) & (_skipped() > 0),
        "send-back": (F.col("kind") == DELIVERED) & F.col("sent") & ~begins & lower,
        "mixed": polled & ~F.coalesce(inside, F.lit(False)) & (F.col("f") != "poll"),
    }
    return [F.when(held, F.lit(move)) for move, held in conditions.items()]


def _points(s: Sources) -> DataFrame:
    """The first and the last record of each operation in each partition, given to it or sent by it: run, tp,
    journal, sent, kind, op, n, offset, role, call_ns, time_ns; many (records), back [n, offset, before] (the
    first step inside it that goes back), f.
    """
    polls = (
        s["polls"]
        .where(F.col("role") != Role.FINAL.value)
        .select(*PLACE, "op", "n", "offset", "role", F.lit(False).alias("sent"))
    )
    sends = (
        s["sends"]
        .where("offset >= 0")
        .select(*PLACE, "op", "n", "offset", F.lit("").alias("role"), F.lit(True).alias("sent"))
    )
    by_op = Window.partitionBy(*PLACE, "op")
    before = F.lag(F.struct("sent", "offset")).over(by_op.orderBy("sent", "n"))
    inside = (
        polls.unionByName(sends)
        .withColumn("last", before)
        .withColumn("before", F.when(F.col("last.sent") == F.col("sent"), F.col("last.offset")))
        .groupBy(*PLACE, "op", "sent", "role")
        .agg(
            F.count(F.lit(1)).alias("many"),
            F.min(F.struct("n", "offset")).alias("first"),
            F.max(F.struct("n", "offset")).alias("last"),
            F.max("offset").alias("highest"),
            F.min(F.when(F.col("offset") <= F.col("before"), F.struct("n", "offset", "before"))).alias(
                "back"
            ),
        )
    )
    ops = s["ops"].select("run", "op", "f", "journal", "call_ns", "return_ns")
    highest = F.struct(F.lit(TOOK).alias("kind"), F.lit(0).alias("n"), F.col("highest").alias("offset"))
    ends = F.array(
        F.struct(F.lit(DELIVERED).alias("kind"), "first.n", "first.offset"),
        F.when(F.col("many") > 1, F.struct(F.lit(DELIVERED).alias("kind"), "last.n", "last.offset")),
        F.when(F.col("back").isNotNull() & ~F.col("sent"), highest),
    )
    return (
        inside.join(ops, on=["run", "op"], how="inner")
        .withColumn("point", F.explode(F.array_compact(ends)))
        .select(
            *PLACE,
            "journal",
            "sent",
            "point.kind",
            "op",
            "point.n",
            "point.offset",
            "role",
            "call_ns",
            F.coalesce(F.when(~F.col("sent"), F.col("return_ns")), F.lit(0)).alias("time_ns"),
            "many",
            "back",
            "f",
        )
    )


def _events(s: Sources, operations: DataFrame) -> DataFrame:
    """What else a process did with a partition: run, tp, journal, sent, kind, time_ns; op, offset, first,
    gained, group where they mean something.

    An operation counts when it returned. Of one that never did, what it committed counts last and its end
    first: both ways nobody is accused.
    """
    assigned = s["assignments"].select(
        *PLACE, "journal", F.lit(ASSIGNED).alias("kind"), "time_ns", "gained", "group"
    )
    claimed = operations.select(
        "run", "op", "operation", "told", "settled", "commits", F.explode("claims").alias("claim")
    )
    own = F.filter("commits", lambda c: (c["tp"] == F.col("claim.tp")) & (c["effect"] == "commit"))
    committed = F.when(
        F.col("settled") == "committed",
        F.greatest("claim.next", F.array_max(F.transform(own, lambda c: c["committed"]))),
    )
    returned, begun = F.col("operation.return_ns"), F.coalesce("operation.commit_ns", "operation.call_ns")
    late, early = F.coalesce(returned, F.lit(NEVER)), F.coalesce(returned, begun)
    points = F.array_compact(
        F.array(
            _point(TOOK, F.when(committed.isNotNull(), F.col("claim.first")), late),
            _point(COMMITTED, committed, late),
            _point(ENDED, F.when(F.col("told") != "committed", F.col("claim.next")), early),
        )
    )
    operated = claimed.withColumn("point", F.explode(points)).select(
        "run",
        "claim.tp",
        "operation.journal",
        "op",
        "claim.first",
        "point.kind",
        "point.offset",
        "point.time_ns",
    )
    return assigned.unionByName(operated, allowMissingColumns=True).withColumn("sent", F.lit(False))


def _point(kind: int, following: Column, time_ns: Column) -> Column:
    """A row at the place before an offset; null where there is none."""
    row = F.struct(
        F.lit(kind).alias("kind"), (following - 1).alias("offset"), time_ns.cast("bigint").alias("time_ns")
    )
    return F.when(following.isNotNull(), row)


def _indexed(rows: DataFrame, visible: DataFrame) -> DataFrame:
    """With index, and below: the index without this offset itself. `visible`: the places of the records that
    the final reader was given.
    """
    united = rows.unionByName(visible.withColumn("final", F.lit(1)), allowMissingColumns=True)
    upto = (
        Window.partitionBy(*PLACE)
        .orderBy("offset", F.asc_nulls_last("final"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    latest = F.max(F.when(F.col("final") == 1, F.col("offset"))).over(upto)
    here = F.coalesce((latest == F.col("offset")).cast("bigint"), F.lit(0))
    return (
        united.withColumns({"index": F.count("final").over(upto), "here": here})
        .where("final is null")
        .withColumn("below", F.col("index") - F.col("here"))
        .drop("here", "final")
    )
