"""Order violation: outputs of one key stand in another order than their inputs.

In one output partition, two visible outputs of one key and output name, from inputs of one partition, stand in
reverse order of those inputs. An input of which several outputs of that key and output name are visible does not
count: its repeats are a `reprocessed-input`. Judged where every stage that reads the input topic promises
order.

Illegal because who reads the output takes the last record of a key for its latest: here it is an older one.
Evidence: key, output name and source of each record, from the final read; what is visible, from the log.

    T1  poll a@5, send x=1 (key k, from a@5), commit     ok
    T2  poll a@4, send x=2 (key k, from a@4), commit     ok
    log of x: 1 at offset 0, 2 at offset 2                      <- order-violation

Blind spot: outputs without a key, or of several inputs; keys that stand in several partitions.
Reference: KIP-98, "ordering"; Kleppmann, Designing Data-Intensive Applications, chapter 11.
"""

from pyspark.sql import DataFrame

from checkers.findings.build import finding, record_place
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.tables import Tables
from harness.results.example import Example
from harness.results.wording import printable

KIN = "partition by run, tp, key, output_name, in_tp"
BELOW = f"over ({KIN} order by offset rows between unbounded preceding and 1 preceding)"


def order_violation(t: Tables) -> DataFrame:
    """One row for each output that stands above one of a later input."""
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
    found = (
        outputs.selectExpr("*", f"count(1) over ({KIN}, input) as same")
        .where("same = 1")
        .selectExpr("*", f"max(struct(input, offset, ops)) {BELOW} as before")
        .where("before.input > input")
    )
    return finding(
        found,
        "order-violation",
        order=["tp", "offset"],
        ops="concat(before.ops, ops)",
        key="key",
        slot="output_name",
        input=record_place("in_tp", "input"),
        input_before=record_place("in_tp", "before.input"),
        records=f"array({record_place('tp', 'before.offset')}, {record_place()})",
    )


def _sentence(e: Example) -> str:
    before, here = e.two_records
    return (
        f"of key {printable(e.rest.get('key'), 60)}, {here} stands above {before}, "
        f"and comes of the earlier {e.input}"
    )


WORDING = {
    "order-violation": AnomalyWording(
        "output stands out of order",
        "outputs stand out of order",
        "Outputs of one key stand in another order than their inputs, where order is promised.",
        _sentence,
    ),
}
