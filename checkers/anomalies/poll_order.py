"""Order of polls: a consumer skipped over records, or went back, in a log whose order is known.

    poll-skip              a consumer's next poll began beyond records that it had not been given
    nonmonotonic-poll      a consumer's next poll began at or below what it had been given
    int-poll-skip          an operation was given records, and not those between them
    int-nonmonotonic-poll  an operation was given a record at or below the one before it

`poll-skip` and `nonmonotonic-poll` compare the first record of a key that an operation was given with the
last one that the process was given before, by its last ok operation that polled the key: more than one on
is a skip, less than one on (a repeat too) goes back. `assign` and `subscribe` forget the keys that they do
not name. `int-poll-skip` and `int-nonmonotonic-poll` compare neighbours inside one operation, of keys that
no rebalance touched meanwhile.

In a stored run the log is what the final read-committed reader was given, and inside an operation a
partition counts once. Nothing is said across a rebalance, nor of the first poll after one, in which it
happened; nor across an operation of the consumer's own that did not commit, after which it must go back to
what is committed; nor of skips inside a poll that goes back.

Illegal because a consumer reads a partition from its position onwards: each record once, in the order of
the offsets. Under `subscribe` a rebalance moves positions between operations, so there the first two are
allowed.
Evidence: the offsets of all polls, and of sends that must have committed, which give each value its
index; gaps in the offsets vanish. In a stored run the polls of each process, its assignments and the end of
its operations.

    log of x: 1 at offset 4, 2 at offset 5, 3 at offset 8
    P0  poll x: 1          ok
    P0  poll x: 3          ok      <- poll-skip, over 2
    P0  poll x: 2          ok      <- nonmonotonic-poll

Blind spot: records that nobody was ever given, and whose offset no sender was told, have no index. In a
stored run a record that the final reader was not given hides a skip inside the poll that holds it.
Reference: Jepsen's Kafka checker, `poll-skip`, `nonmonotonic-poll`, `int-poll-skip`, `int-nonmonotonic-poll`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external.jumps import BACK, SKIPS
from checkers.external.tables import ExternalTables
from checkers.findings.build import finding, jump
from checkers.stored.tables import Tables


def poll_order(t: Tables) -> DataFrame:
    """One row for each step; inside an operation, for each partition of it."""
    inside = F.col("inside")
    steps = t.moves.where("move in ('skip', 'back')").withColumn(
        "anomaly",
        F.when(F.col("move") == "skip", F.when(inside, "int-poll-skip").otherwise("poll-skip")).otherwise(
            F.when(inside, "int-nonmonotonic-poll").otherwise("nonmonotonic-poll")
        ),
    )
    return finding(
        steps,
        F.col("anomaly"),
        order=["op", "tp", "n"],
        ops=F.array("before.op", "op"),
        absence=True,
        records=F.array(F.struct("tp", "before.offset"), F.struct("tp", "offset")),
        skipped=F.when(F.col("move") == "skip", F.col("skipped")),
        reader=F.struct("op", "n", "role"),
        operations=F.when(~inside, F.array(F.struct("before.op"))),
    )


def poll_order_external(t: ExternalTables) -> DataFrame:
    """One row for each operation and key, or for each pair of neighbours."""
    inside, skips, back = F.col("inside"), F.expr(SKIPS), F.expr(BACK)
    jumps = t.jumps.where("polled").where(~F.when(inside, F.col("rebalanced")).otherwise(F.col("forgotten")))
    return jump(
        jumps,
        F.when(inside & skips, "int-poll-skip")
        .when(inside & back, "int-nonmonotonic-poll")
        .when(skips, "poll-skip")
        .when(back, "nonmonotonic-poll"),
    )
