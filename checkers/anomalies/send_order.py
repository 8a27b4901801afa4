"""Order of sends: a producer's records stand in the log in another order than it sent them.

    nonmonotonic-send      what a producer sent stands below what it had sent in an operation before
    int-nonmonotonic-send  what a producer sent stands below what it had sent before in the same operation

`nonmonotonic-send` compares the first record that an operation sent to a key with the last one that the
process had sent to it before, by an ok or info operation. `int-nonmonotonic-send` compares neighbours inside
one operation. `assign` and `subscribe` forget the keys that they do not name. In a stored run what was
acknowledged is compared, of every operation: a broker acknowledges what has its place, and what the process
sends after that stands above it, whatever becomes of the transactions.

Illegal because one producer's records to one partition are written in the order in which they were sent; an
idempotent producer keeps that order through retries.
Evidence: the offsets of the records, told to their sender or to anybody who was given them; in a stored run
to their sender.

    P0  send x=1           ok
    P0  send x=2           ok
    log of x: 2 at offset 4, 1 at offset 5      <- nonmonotonic-send

Blind spot: a record whose offset nobody knows has no place in the order.
Reference: Jepsen's Kafka checker, `nonmonotonic-send`, `int-nonmonotonic-send`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external.jumps import BACK
from checkers.external.tables import INFO, OK, ExternalTables
from checkers.findings.build import finding, jump
from checkers.stored.tables import Tables


def send_order(t: Tables) -> DataFrame:
    """One row for each step back; inside an operation, for each partition of it."""
    inside = F.col("inside")
    return finding(
        t.moves.where("move = 'send-back'"),
        F.when(inside, "int-nonmonotonic-send").otherwise("nonmonotonic-send"),
        order=["op", "tp", "n"],
        ops=F.array("before.op", "op"),
        records=F.array(F.struct("tp", "before.offset", "before.op"), F.struct("tp", "offset", "op")),
        operations=F.array_distinct(F.array(F.struct("before.op"), F.struct("op"))),
    )


def send_order_external(t: ExternalTables) -> DataFrame:
    """One row for each operation and key, or for each pair of neighbours."""
    told = F.col("outcome").isin(OK, INFO) & ~F.col("forgotten")
    return jump(
        t.jumps.where("not polled").where(BACK),
        F.when(F.col("inside"), "int-nonmonotonic-send").when(told, "nonmonotonic-send"),
    )
