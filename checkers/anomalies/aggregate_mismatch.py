"""Aggregate mismatch: the last sum of a key is not the sum of its inputs.

A workload of sums adds inputs to keys. For each key, the last visible record must hold the sum of what the visible
inputs below the group's final committed offset add to the key. A key without any record must have the sum 0. If
records of a key are in several partitions, the last record of at least one partition must hold the sum. In a custom
pipeline, this concerns each topic of `final`: the last visible record of a key must be what its inputs lead to. There,
a null value is the same as no record.

Illegal because sum and offset are committed together: the sum contains each input below the offset once, and no input
above it.
Evidence: the workload says what each input adds and what each record of the topic holds; the fates of records and of
offset commits. For a custom pipeline, `outputs` or `fold` says what the last record must hold.

    a@0 adds 3 to k, a@1 adds 4 to k
    T1  poll a@0 and a@1, send sum k=4, send_offsets a->2, commit     ok      <- aggregate-mismatch

Blind spot: two errors that cancel each other out; a wrong last record of a key that is in several partitions, if one of
them ends with the right sum; a database table with one row per key, where only the number of changes of a row is
checked, and not its contents.
Reference: Wang et al. 2021, "Consistency and Completeness" (SIGMOD); KIP-129.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings import NO_OPERATIONS, AnomalyWording, Suspect, finding, record_position
from checkers.spark.frames import broadcast
from checkers.stored.inputs import ADDING
from checkers.stored.tables import Tables
from harness.common.wording import printable
from harness.results.example import CONTENT_LIMIT, Example

SUMMED = "found and visible and state is not null and not sentinel"
SUSPECTS = (Suspect("inputs", ADDING), Suspect("log_entries", SUMMED))


def aggregate_mismatch(tables: Tables) -> DataFrame:
    """Return one row for each key."""
    added = (
        tables.inputs.where(ADDING)
        .selectExpr("run", "tp", "offset", "inline(adds)")
        .join(broadcast(tables.groups), on=["run", "group", "tp"], how="inner")
        .where("offset >= first and offset < final")
        .selectExpr("run", "topic", "key", "adds", "struct(offset, tp) as input")
    )
    sums = (
        tables.log_entries.where(SUMMED)
        .groupBy("run", "topic", "key", "tp")
        .agg(F.expr("max(struct(offset, tp, state, acks)) as last"))
    )
    keys = (
        added.unionByName(sums, allowMissingColumns=True)
        .groupBy("run", "topic", "key")
        .agg(
            F.expr("coalesce(sum(adds), 0) as due"),
            F.expr("count(adds) as inputs"),
            F.expr("max(input) as latest"),
            F.expr("max(last) as last"),
            F.expr("collect_list(last.state) as states"),
        )
        .join(broadcast(tables.topics), on=["run", "topic"], how="inner")
    )
    read_to_end = "topic_ru_end and (topic_logged or topic_rc_end)"
    wrong = "if(last is null, due != 0, not array_contains(states, due))"
    return finding(
        keys.where(f"{read_to_end} and {wrong}"),
        "aggregate-mismatch",
        order=["last.tp", "last.offset"],
        ops=f"coalesce(transform(last.acks, a -> a.op), {NO_OPERATIONS})",
        absence="true",
        output_topic="topic",
        key="key",
        state="last.state",
        due="due",
        inputs="inputs",
        record=record_position("last.tp", "last.offset"),
        input="if(latest is null, null, struct(latest.tp as tp, latest.offset as offset))",
    )


def _sentence(e: Example) -> str:
    rest = e.rest
    key = "no key" if rest.get("key") is None else f"key {printable(rest.get('key'), 60)}"
    where = f"{key} in topic {printable(rest.get('output_topic'), 60)}"
    inputs = printable(rest.get("inputs"))
    if (content := _expected_content(e)) is not None or e.content is not None:
        last = (
            "there is no record" if e.content is None else f"the last one is {e.record} and holds {e.content}"
        )
        expected = (
            "no input leads to it" if content is None else f"{content} was expected after {inputs} inputs"
        )
        return f"{where}: {last}, but {expected}"
    state = rest.get("state")
    last = "there is no sum" if state is None else f"the last sum is {printable(state)}"
    return f"{where}: {last}, but its {inputs} inputs add up to {printable(rest.get('due'))}"


def _expected_content(e: Example) -> str | None:
    """Return what the last record of the key must hold in a custom pipeline, or None if no input leads to a record."""
    return next(
        (
            printable(output.get("content"), CONTENT_LIMIT)
            for output in (e.inputs[0].expected_outputs if e.inputs else [])
            if output.get("topic") == e.rest.get("output_topic") and output.get("key") == e.rest.get("key")
        ),
        None,
    )


WORDING = {
    "aggregate-mismatch": AnomalyWording(
        "last value does not match its inputs",
        "last values do not match their inputs",
        "The last sum or value of a key is not what the inputs below the committed offset lead to.",
        _sentence,
    ),
}
