"""Aggregate mismatch: the last sum of a key is not the sum of its inputs.

For each key of a topic of sums: the last visible record of the key says another sum than that of what the
visible inputs below the group's final committed offset add to the key. A key whose inputs add up to something
and which has no record at all is one too. Of a pipeline of yours, in each topic of `final`: the last visible record
of a key is not what its inputs must lead to.

Illegal because sum and offset are committed together: the sum holds each input below the offset, once, and
none above.
Evidence: what the workload says that each input adds, and that each record of the topic says; the fates of
records and of offset commits. For a pipeline of yours its `outputs` or `fold` says what the last record must hold.

    a@0 adds 3 to k, a@1 adds 4 to k
    T1  poll a@0 and a@1, send sum k=4, send_offsets a->2, commit     ok      <- aggregate-mismatch

Blind spot: two errors that cancel each other out; keys whose records stand in several partitions; what a row of a
table of states holds: of that the number of changes alone is judged.
Reference: Wang et al. 2021, "Consistency and Completeness" (SIGMOD); KIP-129.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import NOBODY, finding, place
from checkers.findings.told import Told
from checkers.stored.tables import Tables
from harness.telling.example import Example
from harness.telling.words import printable


def aggregate_mismatch(t: Tables) -> DataFrame:
    """One row for each key."""
    added = (
        t.inputs.where("visible and size(adds) > 0")
        .selectExpr("run", "tp", "offset", "inline(adds)")
        .join(F.broadcast(t.groups), on=["run", "group", "tp"], how="inner")
        .where("offset >= first and offset < final")
        .selectExpr("run", "topic", "key", "adds", "struct(offset, tp) as input")
    )
    sums = t.positions.where("found and visible and state is not null and not sentinel").selectExpr(
        "run", "topic", "key", "struct(offset, tp, state, acks) as last"
    )
    keys = (
        added.unionByName(sums, allowMissingColumns=True)
        .groupBy("run", "topic", "key")
        .agg(
            F.expr("coalesce(sum(adds), 0) as due"),
            F.expr("count(adds) as inputs"),
            F.expr("max(input) as latest"),
            F.expr("max(last) as last"),
            F.expr("min(last.tp) as lowest"),
            F.expr("max(last.tp) as highest"),
        )
        .join(F.broadcast(t.topics), on=["run", "topic"], how="inner")
    )
    whole = "topic_ru_end and (topic_logged or topic_rc_end)"
    wrong = "if(last is null, due != 0, lowest = highest and last.state != due)"
    return finding(
        keys.where(f"{whole} and {wrong}"),
        "aggregate-mismatch",
        order=["last.tp", "last.offset"],
        ops=f"coalesce(transform(last.acks, a -> a.op), {NOBODY})",
        absence="true",
        output_topic="topic",
        key="key",
        state="last.state",
        due="due",
        inputs="inputs",
        record=place("last.tp", "last.offset"),
        input="if(latest is null, null, struct(latest.tp as tp, latest.offset as offset))",
    )


def _sentence(e: Example) -> str:
    rest = e.rest
    state = rest.get("state")
    if (due := _must_hold(e)) is not None or e.held is not None:
        key = f"key {printable(rest.get('key'), 60)} of {printable(rest.get('output_topic'), 60)}"
        holds = "has no record" if e.held is None else f"ends with {e.record}, which holds {e.held}"
        after = f"{printable(due)} was due after its {printable(rest.get('inputs'))} inputs"
        return f"{key} {holds}, and {after if due is not None else 'no input leads to it'}"
    said = "has no sum" if state is None else f"has the last sum {printable(state)}"
    inputs = printable(rest.get("inputs"))
    return (
        f"key {printable(rest.get('key'), 60)} of {printable(rest.get('output_topic'), 60)} {said}, and its "
        f"{inputs} inputs add up to {printable(rest.get('due'))}"
    )


def _must_hold(e: Example) -> str | None:
    """What the last record must hold, in a pipeline of a user's."""
    due = e.inputs[0].body.get("due") if e.inputs else None
    here = [
        str(one.get("content"))
        for one in (due if isinstance(due, list) else [])
        if isinstance(one, Mapping) and one.get("topic") == e.rest.get("output_topic")
    ]
    of_key = [content for content in here if content.startswith(f"{e.rest.get('key')}: ")]
    return next(iter([*of_key, *here]), None)


TOLD = {
    "aggregate-mismatch": Told(
        "sum does not fit its inputs",
        "sums do not fit their inputs",
        "The last sum of a key is not what the inputs below the committed offset add up to.",
        _sentence,
    ),
}
