"""Order of sends: a producer's records stand in the log in another order than it sent them.

`nonmonotonic-send` compares the first record that an operation sent to a key with the last one that the
process had sent to it before, by an ok or info operation. `int-nonmonotonic-send` compares neighbours inside
one operation; `int-send-skip` is when records of others stand between them. `assign` and `subscribe` forget
the keys that they do not name.

Illegal because one producer's records to one partition are written in the order in which they were sent; an
idempotent producer keeps that order through retries. Others' records between them are not: transactions
interleave, so `int-send-skip` is listed and always allowed.
Evidence: the offsets of the records, told to their sender or to anybody who was given them.

    P0  send x=1           ok
    P0  send x=2           ok
    log of x: 2 at offset 4, 1 at offset 5      <- nonmonotonic-send

Blind spot: a record whose offset nobody knows has no place in the order.
Reference: Jepsen's Kafka checker, `nonmonotonic-send`, `int-nonmonotonic-send`, `int-send-skip`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.finding import jump
from checkers.jumps import BACK, SKIPS
from checkers.told import INFO, OK, Told


def send_order_told(t: Told) -> DataFrame:
    """One row for each operation and key, or for each pair of neighbours."""
    inside, skips, back = F.col("inside"), F.expr(SKIPS), F.expr(BACK)
    told = F.col("outcome").isin(OK, INFO) & ~F.col("forgotten")
    return jump(
        t.jumps.where("not polled"),
        F.when(inside & back, "int-nonmonotonic-send")
        .when(inside & skips, "int-send-skip")
        .when(~inside & back & told, "nonmonotonic-send"),
    )
