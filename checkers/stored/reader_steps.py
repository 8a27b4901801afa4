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
is said either. Where inputs may be taken in any order nothing is said at all.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast, prefer_hash_join
from checkers.stored.sources import Sources
from harness.model.vocabulary import Role

ASSIGNED, DELIVERED, TOOK, COMMITTED, ENDED = range(5)
"""What a row is of, in the order in which they count at the same time."""
ENDS = (ASSIGNED, ENDED)
NEVER = (1 << 63) - 1
PLACE = ("run", "tp")
SKIPPED = f"""case when kind = {COMMITTED} then index - given
    when inside then index - before.index - (many - 1) else below - before.index end"""
"""How many visible records stand between a row and what its process was given before."""
ACT, POLLED = f"kind = {DELIVERED}", f"(kind = {DELIVERED} and not sent)"
"""A row is of a record that was sent or given; and of one that was given."""
REBALANCED = f"coalesce(begun.kind = {ASSIGNED}, false)"
"""Its stretch began when the partition was given or taken."""
CALM = f"({POLLED} and not begins and not ({REBALANCED} and before.op = first_op))"
"""Whether a step is judged: not if it or the one before may be of the poll in which a rebalance happened."""
LOWER = "if(inside, back is not null, offset <= before.offset)"
"""The step goes back, or stays where it was."""
MOVES = {
    "skip": "calm and (not inside or back is null) and skipped > 0",
    "back": "calm and lower",
    "start": f"{POLLED} and begins and {REBALANCED} and begun.gained and not coalesce(lost_ns >= call_ns, false)",
    "ahead": f"kind = {COMMITTED} and skipped > 0",
    "send-back": f"{ACT} and sent and not begins and lower",
    "mixed": f"{POLLED} and not coalesce(inside, false) and f != 'poll'",
}
"""What each row may have to be told for, and when."""


def make_reader_steps(
    s: Sources, points: DataFrame, positions: DataFrame, operations: DataFrame
) -> DataFrame:
    """The steps that a check may have to tell of; few, in a right run the starts alone. `step_events`: see
    `make_step_events`.

    move: `skip`, `back` (from the record that the process was given before), `send-back` (a send stands below
    the process's send before), `mixed` (an operation that is no mere poll was given records), `start` (the
    first record that it was given after it had gained the partition), `ahead` (an operation committed an
    offset beyond what its process had been given, and a visible record stands between).

    run, move, tp, op, n, offset (of a commit: the last that it covers), role; inside (both belong to one
    operation); before [op, n, offset]: the step before; skipped: how many visible records stand between;
    group, gained_ns: of a start; first, given_to: of a commit, its first input, and the last record that its
    process had been given.
    """
    united = points.unionByName(_events(s, operations), allowMissingColumns=True)
    rows = _indexed(united, positions.where("given and not sentinel").select(*PLACE, "offset"))
    by_process = "partition by run, tp, journal, sent order by time_ns, kind, op, n"
    earlier = f"({by_process} rows between unbounded preceding and 1 preceding)"
    sofar = f"({by_process} rows between unbounded preceding and current row)"
    ends = f"kind in {ENDS}"
    step = "struct(kind, op, n, offset, index)"
    stepped = rows.selectExpr(
        "*",
        f"last(if({ends}, struct(kind, gained, time_ns, group), null), true) over {sofar} as begun",
        f"max(if(not gained, time_ns, null)) over {sofar} as lost_ns",
        f"max(if({ACT} or kind = {TOOK}, index, null)) over {earlier} as given",
        f"max(if({ACT}, offset, null)) over {earlier} as given_to",
        f"last(if({ACT} or {ends}, {step}, null), true) over {earlier} as before",
    ).selectExpr("*", f"{ACT} and coalesce(before.kind in {ENDS}, true) as begins")
    back = "move in ('back', 'send-back') and inside"
    moves = ", ".join(f"if({held}, '{move}', null)" for move, held in MOVES.items())
    return (
        stepped.selectExpr(
            "*",
            f"last(if(begins, op, null), true) over {sofar} as first_op",
            "not begins and before.op = op as inside",
        )
        # Columns of their own: what stands in several places is planned as often.
        .selectExpr("*", f"{SKIPPED} as skipped", f"{CALM} as calm", f"{LOWER} as lower")
        .selectExpr("*", f"explode(array_compact(array({moves}))) as move")
        .selectExpr(
            *("run", "move", "tp", "op"),
            f"if({back}, back.n, n) as n",
            f"if({back}, back.offset, offset) as offset",
            *("role", "inside"),
            f"if({back}, struct(op as op, n as n, back.before as offset), "
            "struct(before.op as op, before.n as n, before.offset as offset)) as before",
            *("skipped", "begun.group", "begun.time_ns as gained_ns", "first", "given_to"),
        )
    )


def make_step_events(s: Sources, tps: DataFrame) -> DataFrame:
    """The first and the last record of each operation in each partition but those in which inputs may be taken in any
    order, given to it or sent by it: run, tp, journal, sent, kind, op, n, offset, role, call_ns, time_ns; many
    (records), back [n, offset, before] (the first step inside it that goes back), f.
    """
    unordered = broadcast(tps.where("each").select(*PLACE))
    point = (*PLACE, "op", "n", "offset")
    polls = s["polls"].where(f"role != '{Role.FINAL.value}'").selectExpr(*point, "role", "false as sent")
    sends = s["sends"].where("offset is not null").selectExpr(*point, "'' as role", "true as sent")
    before = "lag(struct(sent, offset)) over (partition by run, tp, op order by sent, n)"
    told = (
        "count(1) as many",
        "min(struct(n, offset)) as first",
        "max(struct(n, offset)) as last",
        "max(offset) as highest",
        "min(if(offset <= before, struct(n, offset, before), null)) as back",
    )
    inside = (
        polls.unionByName(sends)
        .join(unordered, on=[*PLACE], how="left_anti")
        .selectExpr("*", f"{before} as last")
        .selectExpr(*point, "role", "sent", "if(last.sent = sent, last.offset, null) as before")
        .groupBy(*PLACE, "op", "sent", "role")
        .agg(*map(F.expr, told))
    )
    ends = f"""array_compact(array(
        struct({DELIVERED} as kind, first.n as n, first.offset as offset),
        if(many > 1, struct({DELIVERED} as kind, last.n as n, last.offset as offset), null),
        if(back is not null and not sent, struct({TOOK} as kind, 0 as n, highest as offset), null)))"""
    # The order of polls within a transaction is that of its micro-operations, which the clients' own history has.
    apart = s["ops"].where("txn is null").select("run", "op", "f", "journal", "call_ns", "return_ns")
    return (
        inside.join(prefer_hash_join(apart), on=["run", "op"])
        .selectExpr("*", f"explode({ends}) as point")
        .selectExpr(
            *(*PLACE, "journal", "sent", "point.kind", "op", "point.n", "point.offset", "role", "call_ns"),
            "coalesce(if(not sent, return_ns, null), 0) as time_ns",
            *("many", "back", "f"),
        )
    )


def _events(s: Sources, operations: DataFrame) -> DataFrame:
    """What else a process did with a partition: run, tp, journal, sent, kind, time_ns; op, offset, first,
    gained, group where they mean something.

    An operation counts when it returned. Of one that never did, what it committed counts last and its end
    first: both ways nobody is accused.
    """
    assigned = s["assignments"].selectExpr(
        *(*PLACE, "journal", f"{ASSIGNED} as kind", "time_ns", "gained", "group")
    )
    own = "filter(commits, c -> c.tp = claim.tp and c.effect = 'commit')"
    committed = f"greatest(claim.next, array_max(transform({own}, c -> c.committed)))"
    early = "coalesce(operation.return_ns, operation.commit_ns, operation.call_ns)"
    late = f"coalesce(operation.return_ns, {NEVER})"
    points = ", ".join(
        (
            _point(TOOK, "if(committed is not null, claim.first, null)", late),
            _point(COMMITTED, "committed", late),
            _point(ENDED, "if(told != 'committed', claim.next, null)", early),
        )
    )
    operated = (
        operations.selectExpr(
            *("run", "op", "operation", "told", "settled", "commits", "explode(claims) as claim")
        )
        .selectExpr("*", f"if(settled = 'committed', {committed}, null) as committed")
        .selectExpr("*", f"explode(array_compact(array({points}))) as point")
        .selectExpr(
            *("run", "claim.tp", "operation.journal", "op", "claim.first"),
            *("point.kind", "point.offset", "point.time_ns"),
        )
    )
    return assigned.unionByName(operated, allowMissingColumns=True).selectExpr("*", "false as sent")


def _point(kind: int, following: str, time_ns: str) -> str:
    """A row at the place before an offset; null where there is none."""
    row = f"struct({kind} as kind, {following} - 1 as offset, cast({time_ns} as bigint) as time_ns)"
    return f"if({following} is not null, {row}, null)"


def _indexed(rows: DataFrame, visible: DataFrame) -> DataFrame:
    """With index, and below: the index without this offset itself. `visible`: the places of the records that
    the final reader was given.
    """
    united = rows.unionByName(visible.selectExpr("*", "1 as final"), allowMissingColumns=True)
    upto = """(partition by run, tp order by offset, final nulls last
        rows between unbounded preceding and current row)"""
    return (
        united.selectExpr(
            "*",
            f"count(final) over {upto} as index",
            f"max(if(final = 1, offset, null)) over {upto} as latest",
        )
        .where("final is null")
        .selectExpr("*", "index - coalesce(cast(latest = offset as bigint), 0) as below")
        .drop("latest", "final")
    )
