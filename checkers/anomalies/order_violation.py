"""Order violation: outputs of one key are in another order than their inputs.

In one output partition, two visible outputs of one key and output name come from inputs of one partition. They are in
the reverse order of those inputs. An input does not count if it has several visible outputs of that key and output
name, because its repeats are a `reprocessed-input`. This is checked only if every stage that reads the input topic
promises order.

Illegal because a reader of the outputs takes the last record of a key as its latest state. Here it is an older one.
Evidence: the key, output name and source of each record in the final read, and the log, which says what is visible.

    T1  poll a@5, send x=1 (key k, from a@5), commit     ok
    T2  poll a@4, send x=2 (key k, from a@4), commit     ok
    log of x: 1 at offset 0, 2 at offset 2                      <- order-violation

Blind spot: outputs without a key, outputs of several inputs, and keys that are in several partitions.
Reference: KIP-98, "ordering"; Kleppmann, Designing Data-Intensive Applications, chapter 11.
"""

from pyspark.sql import DataFrame

from checkers.findings.build import finding, record_position
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.tables import Tables
from harness.results.example import Example
from harness.results.wording import printable

SAME_KEY = "partition by run, tp, key, output_name, in_tp"
BELOW = f"over ({SAME_KEY} order by offset rows between unbounded preceding and 1 preceding)"


def order_violation(t: Tables) -> DataFrame:
    """Return one row for each output above an output of a later input."""
    outputs = (
        t.log_entries.where(
            "found and visible and output_name is not null and key is not null and size(inputs) = 1"
        )
        .selectExpr(
            "run",
            "tp",
            "offset",
            "key",
            "output_name",
            "acks.op as ops",
            "get(inputs, 0).tp as in_tp",
            "get(inputs, 0).offset as input",
        )
        .join(
            broadcast(t.tps.where("ordered").selectExpr("run", "tp as in_tp")),
            on=["run", "in_tp"],
            how="left_semi",
        )
    )
    out_of_order = (
        outputs.selectExpr("*", f"count(1) over ({SAME_KEY}, input) as same")
        .where("same = 1")
        .selectExpr("*", f"max(struct(input, offset, ops)) {BELOW} as before")
        .where("before.input > input")
    )
    return finding(
        out_of_order,
        "order-violation",
        order=["tp", "offset"],
        ops="concat(before.ops, ops)",
        key="key",
        slot="output_name",
        input=record_position("in_tp", "input"),
        input_before=record_position("in_tp", "before.input"),
        records=f"array({record_position('tp', 'before.offset')}, {record_position()})",
    )


def _sentence(e: Example) -> str:
    lower, upper = e.two_records
    key = printable(e.rest.get("key"), 60)
    return f"for key {key}, {upper} is above {lower}, but it comes from the earlier {e.input}"


WORDING = {
    "order-violation": AnomalyWording(
        "output is out of order",
        "outputs are out of order",
        "Outputs of one key are in another order than their inputs, though the pipeline promises order.",
        _sentence,
    ),
}
