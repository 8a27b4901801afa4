"""Order violation: outputs of one key are in another order than their inputs, or in several partitions.

In one output partition, two visible outputs of one key and output name come from inputs of one partition. They are in
the reverse order of those inputs. An input does not count if it has several visible outputs of that key and output
name, because its repeats are a `reprocessed-input`.

Or visible outputs of one key and output name, whose inputs are in one partition, are in several partitions of a topic.
If the topic got more partitions during the run, a key may be in one partition more for each time that it grew. A
producer moves it once, or three times if one broker learned of the growth late.

Each stage is checked for itself. If a stage that promises order and another one read a topic, only the outputs that the
first one must make are checked.

Illegal because a reader of the outputs takes the last record of a key as its latest state. Here it is an older one, or
the records have no order, because Kafka orders only the records of one partition.
Evidence: the key, output name and source of each record in the final read, and the log, which says what is visible.

    T1  poll a@5, send x=1 (key k, from a@5), commit     ok
    T2  poll a@4, send x=2 (key k, from a@4), commit     ok
    log of x: 1 at offset 0, 2 at offset 2                      <- order-violation

    log of x/0: key k from a/0@4, log of x/1: key k from a/0@5      <- order-violation

Blind spot: outputs without a key or with an empty one, and outputs of several inputs. If a topic grew, a key that moved
before the topic grew.
Reference: KIP-98, "ordering"; KIP-480, "partition by the key"; Kleppmann, Designing Data-Intensive Applications,
chapter 11.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings import MAX_SHOWN, AnomalyWording, finding, record_position
from checkers.spark.frames import broadcast
from checkers.stored.tables import Tables
from harness.common.wording import join_words, printable
from harness.results.example import Example

NAME = "order-violation"
SAME_KEY = "partition by run, topic, key, output_name, tp, in_tp"
BELOW = f"over ({SAME_KEY} order by offset rows between unbounded preceding and 1 preceding)"
BY_PRODUCER = "over (partition by run, topic, key, output_name, in_tp, producer_id order by input, offset)"
OUTPUT = ("run", "topic", "key", "output_name", "in_tp")
MOVES = 3
"""How often a producer may move a key for each time that a topic grew. One broker may learn of it late: a client that
asks it moves the key back, and then again.
"""


def order_violation(tables: Tables) -> DataFrame:
    """Return one row for each output above an output of a later input, and for each key in several partitions."""
    outputs = _ordered_outputs(tables)
    out_of_order = (
        outputs.selectExpr("*", f"count(1) over ({SAME_KEY}, input) as same")
        .where("same = 1")
        .selectExpr("*", f"max(struct(input, offset, ops)) {BELOW} as before")
        .where("before.input > input")
    )
    reversed_outputs = finding(
        out_of_order,
        NAME,
        order=["tp", "offset"],
        ops="concat(before.ops, ops)",
        key="key",
        slot="output_name",
        input=record_position("in_tp", "input"),
        input_before=record_position("in_tp", "before.input"),
        records=f"array({record_position('tp', 'before.offset')}, {record_position()})",
    )
    return reversed_outputs.unionByName(_in_several_partitions(outputs))


def _ordered_outputs(tables: Tables) -> DataFrame:
    """Select the visible outputs with a key, of stages that promise order."""
    by_partition = tables.tps.selectExpr("run", "tp as in_tp", "ordered")
    orders = tables.orders.selectExpr("run", "in_tp", "topic", "output_name", "promised")
    growths = tables.tps.select("run", "tp", "growths")
    return (
        # The default partitioner of librdkafka sends an empty key to any partition.
        tables.log_entries.where(
            "found and visible and output_name is not null and coalesce(key, '') != '' and size(inputs) = 1"
        )
        .selectExpr(
            *("run", "topic", "tp", "offset", "key", "output_name", "producer_id", "acks.op as ops"),
            "get(inputs, 0).tp as in_tp",
            "get(inputs, 0).offset as input",
        )
        .join(broadcast(by_partition), on=["run", "in_tp"], how="inner")
        .join(broadcast(orders), on=["run", "in_tp", "topic", "output_name"], how="left")
        .where("coalesce(promised, ordered)")
        .join(broadcast(growths), on=["run", "tp"], how="inner")
        .drop("ordered", "promised")
    )


def _in_several_partitions(outputs: DataFrame) -> DataFrame:
    """Return one row for each key and output name that is in more partitions than the growth of the topic explains."""
    of_grown_topics = (
        outputs.where("growths > 0")
        .selectExpr("*", f"producer_id is not null and tp != lag(tp) {BY_PRODUCER} as moved")
        .selectExpr("*", f"coalesce(count_if(moved) {BY_PRODUCER} > {MOVES} * growths, false) as wanders")
        .drop("moved")
    )
    first = "struct(tp, min(struct(offset, input, ops)) as first)"
    partitions = (
        outputs.where("growths = 0")
        .selectExpr("*", "false as wanders")
        .unionByName(of_grown_topics)
        .groupBy(*OUTPUT, "growths", "tp")
        .agg(F.expr(f"{first} as partition"), F.expr("bool_or(wanders) as wanders"))
        .groupBy(*OUTPUT, "growths")
        .agg(
            F.expr("array_sort(collect_list(partition)) as partitions"),
            F.expr("bool_or(wanders) as wanders"),
        )
        .where("size(partitions) > growths + 1 or wanders")
    )
    at = record_position("p.tp", "p.first.offset")
    return finding(
        partitions,
        NAME,
        order=["partitions[0].tp", "partitions[0].first.offset"],
        ops="flatten(transform(partitions, p -> p.first.ops))",
        key="key",
        slot="output_name",
        partitions="size(partitions)",
        input=record_position("in_tp", "partitions[0].first.input"),
        records=f"transform(slice(partitions, 1, {MAX_SHOWN}), p -> {at})",
    )


def _sentence(e: Example) -> str:
    key = printable(e.rest.get("key"), 60)
    if (partitions := e.rest.get("partitions")) is not None:
        where = join_words([record.position for record in e.records[:3]])
        return f"the outputs of key {key} are in {printable(partitions)} partitions: {where}"
    lower, upper = e.two_records
    return f"for key {key}, {upper} is above {lower}, but it comes from the earlier {e.input}"


WORDING = {
    "order-violation": AnomalyWording(
        "output is out of order",
        "outputs are out of order",
        "Outputs of one key are in another order than their inputs, or in several partitions, though the pipeline "
        "promises order.",
        _sentence,
    ),
}
