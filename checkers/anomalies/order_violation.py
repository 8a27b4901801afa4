"""Order violation: outputs of one key stand in another order than their inputs.

In one output partition, two visible outputs of one key and slot, from inputs of one partition, stand in
reverse order of those inputs. An input of which several outputs of that key and slot are visible does not
count: its repeats are a `reprocessed-input`. Judged where every stage that reads the input topic promises
order.

Illegal because who reads the output takes the last record of a key for its latest: here it is an older one.
Evidence: key, slot and source of each record, from the final read; what is visible, from the log.

    T1  poll a@5, send x=1 (key k, from a@5), commit     ok
    T2  poll a@4, send x=2 (key k, from a@4), commit     ok
    log of x: 1 at offset 0, 2 at offset 2                      <- order-violation

Blind spot: outputs without a key, or of several inputs; keys that stand in several partitions.
Reference: KIP-98, "ordering"; Kleppmann, Designing Data-Intensive Applications, chapter 11.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.tables import Tables


def order_violation(t: Tables) -> DataFrame:
    """One row for each output that stands above one of a later input."""
    outputs = (
        t.positions.where("found and visible and slot is not null and key is not null and size(inputs) = 1")
        .select(
            "run",
            "tp",
            "offset",
            "key",
            "slot",
            "acks",
            F.get("inputs", F.lit(0))["tp"].alias("in_tp"),
            F.get("inputs", F.lit(0))["offset"].alias("input"),
        )
        .join(
            F.broadcast(t.tps.where("ordered").select("run", F.col("tp").alias("in_tp"))),
            on=["run", "in_tp"],
            how="left_semi",
        )
    )
    kin = ("run", "tp", "key", "slot", "in_tp")
    below = Window.partitionBy(*kin).orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    found = (
        outputs.withColumn("same", F.count(F.lit(1)).over(Window.partitionBy(*kin, "input")))
        .where("same = 1")
        .withColumn("before", F.max(F.struct("input", "offset", "acks")).over(below))
        .where("before.input > input")
    )
    ops = F.transform(F.concat("before.acks", "acks"), lambda ack: ack["op"])
    return finding(
        found,
        "order-violation",
        order=["tp", "offset"],
        ops=ops,
        key=F.col("key"),
        slot=F.col("slot"),
        input=F.struct(F.col("in_tp").alias("tp"), F.col("input").alias("offset")),
        input_before=F.struct(F.col("in_tp").alias("tp"), F.col("before.input").alias("offset")),
        records=F.array(F.struct("tp", "before.offset"), F.struct("tp", "offset")),
    )
