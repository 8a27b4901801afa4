"""Order of polls: a consumer skipped over records, or went back, in a log whose order is known.

`poll-skip` and `nonmonotonic-poll` compare the first record of a key that an operation was given with the
last one that the process was given before, by its last ok operation that polled the key: more than one on
is a skip, less than one on (a repeat too) goes back. `assign` and `subscribe` forget the keys that they do
not name. `int-poll-skip` and `int-nonmonotonic-poll` compare neighbours inside one operation, of keys that
no rebalance touched meanwhile.

Illegal because a consumer reads a partition from its position onwards: each record once, in the order of
the offsets. Under `subscribe` a rebalance moves positions between operations, so there the first two are
allowed.
Evidence: the offsets of all polls, and of sends that must have committed, which give each value its
index; gaps in the offsets vanish.

    log of x: 1 at offset 4, 2 at offset 5, 3 at offset 8
    P0  poll x: 1          ok
    P0  poll x: 3          ok      <- poll-skip, over 2
    P0  poll x: 2          ok      <- nonmonotonic-poll

Blind spot: records that nobody was ever given, and whose offset no sender was told, have no index.
Reference: Jepsen's Kafka checker, `poll-skip`, `nonmonotonic-poll`, `int-poll-skip`, `int-nonmonotonic-poll`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.finding import jump
from checkers.jumps import BACK, SKIPS
from checkers.told import Told


def poll_order_told(t: Told) -> DataFrame:
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
