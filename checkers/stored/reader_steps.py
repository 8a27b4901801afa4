"""Make the table `reader_steps`: how each process moved through each partition, as sender and as reader.

First, the records of one operation in one partition are compared with each other. Then only the first and the last of
them are compared with other operations, so that fewer rows are sorted by process.

A record is visible here if the final read-committed reader received it; sentinels do not count. The *index* of an
offset is the number of visible records at or below it. A reader whose index grows by more than one has skipped a
record. Records above the end of the final read are not compared. The final readers themselves are not checked.

A reader may jump after a partition was assigned or revoked. It must go back after one of its operations did not commit.
From there a new *stretch* begins, and steps are compared only inside a stretch. A rebalance happens during a poll, so
the first poll after a rebalance is not compared either. A partition whose inputs may be taken in any order is left out.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.frames import broadcast, prefer_hash_join
from checkers.stored.sources import Sources
from harness.model.vocabulary import Role

ASSIGNED, DELIVERED, TOOK, COMMITTED, ENDED = range(5)
"""Kinds of rows, in the order in which rows of the same time are sorted."""
ENDS = (ASSIGNED, ENDED)
NEVER = (1 << 63) - 1
PARTITION = ("run", "tp")
SKIPPED = f"""case when kind = {COMMITTED} then index - index_before
    when inside then index - before.index - (many - 1) else below - before.index end"""
"""The number of visible records between a row and the record that its process received before."""
SENT_OR_RECEIVED, RECEIVED = f"kind = {DELIVERED}", f"(kind = {DELIVERED} and not sent)"
"""Conditions: a record was sent or received; a record was received."""
REBALANCED = f"coalesce(begun.kind = {ASSIGNED}, false)"
"""The stretch began with an assignment or a revocation."""
CALM = f"({RECEIVED} and not begins and not ({REBALANCED} and before.op = first_op))"
"""The step is compared: neither it nor the step before it can belong to the poll in which a rebalance happened."""
LOWER = "if(inside, back is not null, offset <= before.offset)"
"""The step goes back or repeats the offset."""
MOVES = {
    "skip": "calm and (not inside or back is null) and skipped > 0",
    "back": "calm and lower",
    "start": f"{RECEIVED} and begins and {REBALANCED} and begun.gained and not coalesce(lost_ns >= call_ns, false)",
    "ahead": f"kind = {COMMITTED} and skipped > 0",
    "send-back": f"{SENT_OR_RECEIVED} and sent and not begins and lower",
    "mixed": f"{RECEIVED} and not coalesce(inside, false) and f != 'poll'",
}
"""For each kind of move, the condition on a row."""


def make_reader_steps(
    s: Sources, step_events: DataFrame, log_entries: DataFrame, operations: DataFrame
) -> DataFrame:
    """Make the table `reader_steps`: the steps that a check may report. A valid run has only steps of the kind `start`.

    A row is a move of one of these kinds:

    - `skip`, `back`: the record skips visible records after the record that the process received before, or is not
      above it
    - `send-back`: the record of a send is not above the record that the process sent before
    - `mixed`: an operation that is not a plain poll received records
    - `start`: the first record that the process received after it gained the partition
    - `ahead`: an operation committed an offset beyond what its process had received, and a visible record lies between

    Columns:
        run, move, tp, op, n, role
        offset: of the record; of a commit: the last offset that it covers
        inside: the step before belongs to the same operation
        before: the step before [op, n, offset]
        skipped: the number of visible records between the step before and this step
        group, gained_ns: of a start
        first, given_to: of a commit: its first input, and the last record that its process had received

    Args:
        step_events: the table of `make_step_events`
    """
    united = step_events.unionByName(_other_events(s, operations), allowMissingColumns=True)
    rows = _indexed(united, log_entries.where("delivered and not sentinel").select(*PARTITION, "offset"))
    by_process = "partition by run, tp, journal, sent order by time_ns, kind, op, n"
    earlier = f"({by_process} rows between unbounded preceding and 1 preceding)"
    up_to_now = f"({by_process} rows between unbounded preceding and current row)"
    ends = f"kind in {ENDS}"
    step = "struct(kind, op, n, offset, index)"
    stepped = rows.selectExpr(
        "*",
        f"last(if({ends}, struct(kind, gained, time_ns, group), null), true) over {up_to_now} as begun",
        f"max(if(not gained, time_ns, null)) over {up_to_now} as lost_ns",
        f"max(if({SENT_OR_RECEIVED} or kind = {TOOK}, index, null)) over {earlier} as index_before",
        f"max(if({SENT_OR_RECEIVED}, offset, null)) over {earlier} as given_to",
        f"last(if({SENT_OR_RECEIVED} or {ends}, {step}, null), true) over {earlier} as before",
    ).selectExpr("*", f"{SENT_OR_RECEIVED} and coalesce(before.kind in {ENDS}, true) as begins")
    back = "move in ('back', 'send-back') and inside"
    moves = ", ".join(f"if({condition}, '{move}', null)" for move, condition in MOVES.items())
    return (
        stepped.selectExpr(
            "*",
            f"last(if(begins, op, null), true) over {up_to_now} as first_op",
            "not begins and before.op = op as inside",
        )
        # In a select of their own, because Spark plans an expression again wherever it is used.
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
    """Select the first and the last record of each operation in each partition, received or sent.

    Partitions whose inputs may be taken in any order are left out.

    Columns:
        run, tp, journal, sent, kind, op, n, offset, role, call_ns
        time_ns: when the operation returned; 0 for sends, and if that is not known
        many: the number of records
        back: the first step inside the operation that goes back [n, offset, before]; null: none
        f: the kind of operation
    """
    unordered = broadcast(tps.where("each").select(*PARTITION))
    point = (*PARTITION, "op", "n", "offset")
    polls = s["polls"].where(f"role != '{Role.FINAL.value}'").selectExpr(*point, "role", "false as sent")
    sends = s["sends"].where("offset is not null").selectExpr(*point, "'' as role", "true as sent")
    previous = "lag(struct(sent, offset)) over (partition by run, tp, op order by sent, n)"
    aggregates = (
        "count(1) as many",
        "min(struct(n, offset)) as first",
        "max(struct(n, offset)) as last",
        "max(offset) as highest",
        "min(if(offset <= before, struct(n, offset, before), null)) as back",
    )
    inside = (
        polls.unionByName(sends)
        .join(unordered, on=[*PARTITION], how="left_anti")
        .selectExpr("*", f"{previous} as last")
        .selectExpr(*point, "role", "sent", "if(last.sent = sent, last.offset, null) as before")
        .groupBy(*PARTITION, "op", "sent", "role")
        .agg(*map(F.expr, aggregates))
    )
    ends = f"""array_compact(array(
        struct({DELIVERED} as kind, first.n as n, first.offset as offset),
        if(many > 1, struct({DELIVERED} as kind, last.n as n, last.offset as offset), null),
        if(back is not null and not sent, struct({TOOK} as kind, 0 as n, highest as offset), null)))"""
    # Polls within a transaction are left out: the history of the clients has the order of its micro-operations.
    plain_operations = (
        s["ops"].where("txn is null").select("run", "op", "f", "journal", "call_ns", "return_ns")
    )
    return (
        inside.join(prefer_hash_join(plain_operations), on=["run", "op"])
        .selectExpr("*", f"explode({ends}) as point")
        .selectExpr(
            *(
                *PARTITION,
                "journal",
                "sent",
                "point.kind",
                "op",
                "point.n",
                "point.offset",
                "role",
                "call_ns",
            ),
            "coalesce(if(not sent, return_ns, null), 0) as time_ns",
            *("many", "back", "f"),
        )
    )


def _other_events(s: Sources, operations: DataFrame) -> DataFrame:
    """Select the other events of processes: assignments, and the claims and ends of operations.

    Order an operation by its return time. If it never returned, assume that its commit came last and its end first, so
    that neither can cause a false finding.

    Columns:
        run, tp, journal, sent, kind, time_ns
        op, offset, first, gained, group: null where they do not apply
    """
    assigned = s["assignments"].selectExpr(
        *(*PARTITION, "journal", f"{ASSIGNED} as kind", "time_ns", "gained", "group")
    )
    own_commits = "filter(commits, c -> c.tp = claim.tp and c.effect = 'commit')"
    committed = f"greatest(claim.next, array_max(transform({own_commits}, c -> c.committed)))"
    early = "coalesce(operation.return_ns, operation.commit_ns, operation.call_ns)"
    late = f"coalesce(operation.return_ns, {NEVER})"
    points = ", ".join(
        (
            _point(TOOK, "if(committed is not null, claim.first, null)", late),
            _point(COMMITTED, "committed", late),
            _point(ENDED, "if(reported_end != 'committed', claim.next, null)", early),
        )
    )
    operated = (
        operations.selectExpr(
            *("run", "op", "operation", "reported_end", "settled", "commits", "explode(claims) as claim")
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
    """Return SQL for an event at the offset before `following`. The event is null if `following` is null."""
    row = f"struct({kind} as kind, {following} - 1 as offset, cast({time_ns} as bigint) as time_ns)"
    return f"if({following} is not null, {row}, null)"


def _indexed(rows: DataFrame, visible: DataFrame) -> DataFrame:
    """Add the index of each row's offset, and `below`: the number of visible records below the offset.

    Args:
        visible: run, tp and offset of the records that the final reader received
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
