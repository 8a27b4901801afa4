"""Contended id: two live workers initialised one transactional id in turn.

A process initialised a transactional id, then another one did, and then the first one again. Being
replaced once is how a worker that has gone is followed by another; taking the id back shows that both are
alive and have the same.

Illegal because a transactional id is one producer's: two that share it fence each other, again and again,
and none gets on. It is a warning: nothing is lost by it.
Evidence: the initialisations that the processes were told had succeeded, in the order of their calls.

    W1  init id=a     ok
    W2  init id=a     ok
    W1  init id=a     ok      <- contended-id

Blind spot: processes that record nothing; one that gives up when it is fenced for the first time.
Reference: KIP-98, "transactional.id"; KIP-447.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.findings.build import finding, operation
from checkers.stored.tables import Tables


def contended_id(t: Tables) -> DataFrame:
    """One row for each time that an id was taken back."""
    by_id = Window.partitionBy("run", "transactional_id").orderBy("call_ns")
    by_owner = Window.partitionBy("run", "transactional_id", "journal").orderBy("call_ns")
    found = (
        t.inits.where("transactional_id is not null")
        .select("run", "transactional_id", "journal", "call_ns", "op")
        .withColumn("before", F.lag(F.struct("journal", "op")).over(by_id))
        .withColumn("own", F.lag("op").over(by_owner))
        .where("own is not null and before.journal != journal")
    )
    return finding(
        found,
        "contended-id",
        order=["op"],
        ops=F.array("op"),
        transactional_id=F.col("transactional_id"),
        operation=operation(),
        other_init=F.struct("before.op"),
        own_init=F.struct(F.col("own").alias("op")),
    )
