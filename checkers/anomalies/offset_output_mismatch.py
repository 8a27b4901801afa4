"""Offsets and outputs of one transaction do not belong together.

In one operation an offset commit and an output have different fates (one committed, one
aborted; an offset commit outside any transaction counts as committed). Or a transaction's output or offset
commit was written outside it. Or a committed operation's offset
commit is for another offset than the inputs that it claims, or is missing. Or its claim and its outputs name
different inputs: a visible output names an input outside the claim, or the claim holds a visible input that must lead
to outputs and, of all that it wrote, nothing names that input. Transactions that hold only offsets, or only
outputs, are no anomaly.

Illegal because exactly-once rests on this one atom: the outputs and the step over their inputs,
together or not.
Evidence: the journal's claims and sends, the fates of records and of offset commits.

    T1  poll a@4, send x=1 (from a@4), send_offsets a->5, commit     ok
    log of x: 1 at offset 7, abort at offset 8
    log of __consumer_offsets: a->5, commit                                 <- offset-output-mismatch

Without journals: a visible record is in no transaction, though its topic is written in transactions. Or the offsets of
a transaction do not cover the input of one of its outputs: they cover its inputs from where its group had committed
before. Or an offset is beyond the end of its partition. An input that is covered and led to nothing is lost-input.

Of an input of which only the last record of a key is judged (`final`), an offset commit outside any transaction that
goes past it is told, where the topic of that record is written in transactions.

Blind spot: offset commits that are gone (their topic is compacted), and those that bear no operation's
name.
Reference: KIP-98, "consume-transform-produce"; KIP-447.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import (
    SHOWN,
    SPAN_OPS,
    finding,
    offsets,
    operation,
    place,
    record,
    records,
    span,
)
from checkers.findings.rules import Rule
from checkers.findings.told import Told
from checkers.spark.gather import beside
from checkers.stored.operations import GONE_OFFSETS
from checkers.stored.tables import Tables
from harness.telling.example import Example, fate, named_offset, named_place, named_record
from harness.telling.words import listed, printable

NAME = "offset-output-mismatch"


def _some(column: str, effect: str) -> str:
    return f"coalesce(array_contains({column}.effect, '{effect}'), false)"


MIXED = (
    f"({_some('records', 'commit')} and {_some('commits', 'abort')} "
    f"or {_some('records', 'abort')} and {_some('commits', 'commit')})"
)
"""An output and an offset commit have different fates."""
PLAIN_RECORDS = "filter(records, r -> r.plain)"
PLAIN_COMMITS = "filter(commits, c -> not c.transactional)"
WITHOUT_OFFSETS = "it was committed, and the offsets of its inputs were not"
OUTSIDE_ITS_OWN = "part of it was written outside the transaction"
IN_NO_TRANSACTION = "a record is in no transaction, though its topic is written in transactions"
NOT_COVERED = "an output comes of an input that the offsets do not cover"
RULES = (
    Rule(
        NAME,
        "operations",
        where=MIXED,
        order=["op"],
        ops="array(op)",
        detail={
            "operation": operation(),
            "records": records("records"),
            "offsets": "transform(commits, c -> struct(c.tp as tp, c.committed as committed, c.effect as fate))",
        },
    ),
    Rule(
        NAME,
        "operations",
        where="transactional and (coalesce(array_contains(records.plain, true), false) "
        f"or coalesce(array_contains(commits.transactional, false), false)) and not {MIXED}",
        order=["op"],
        ops="array(op)",
        detail={
            "operation": operation(),
            "records": records(PLAIN_RECORDS),
            "offsets": offsets(PLAIN_COMMITS),
            "why": f"'{OUTSIDE_ITS_OWN}'",
        },
    ),
    Rule(
        NAME,
        "operations",
        where=f"transactional and told = 'unknown' and settled = 'committed' and size({GONE_OFFSETS}) > 0",
        order=["op"],
        ops="array(op)",
        absence="true",
        detail={
            "operation": operation(),
            "offsets": offsets(GONE_OFFSETS, "next"),
            "why": f"'{WITHOUT_OFFSETS}'",
        },
    ),
    Rule(
        NAME,
        "positions",
        where="within_transactions and visible and found and fate = 'plain' and not sentinel and size(acks) = 0",
        order=["tp", "offset"],
        detail={"record": record(), "why": f"'{IN_NO_TRANSACTION}'"},
    ),
    Rule(
        NAME,
        "operations",
        each="if(size(claims) > 0, commits, array())",
        where="it.effect = 'commit' and it.committed is not null "
        "and not exists(claims, c -> c.tp = it.tp and c.next = it.committed)",
        order=["op", "it.tp"],
        ops="array(op)",
        detail={
            "operation": operation(),
            "offsets": "array(struct(it.tp as tp, it.committed as committed))",
            "claims": "transform(claims, c -> struct(c.tp as tp, c.first as first, c.next as next))",
        },
    ),
    Rule(
        NAME,
        "inputs",
        each="outputs",
        where="it.visible and it.claims and not exists(claims, c -> c.op = it.op)",
        order=["it.op", "tp", "offset"],
        ops="array(it.op)",
        detail={
            "operation": operation("it.op"),
            "input": place(),
            "record": record("it.tp", "it.offset", "it.name"),
            "why": "'an output names an input that the offsets do not cover'",
        },
    ),
    Rule(
        NAME,
        "inputs",
        each="if(visible, claims, array())",
        where="it.settled = 'committed' and it.writes and exists(expected, e -> e.group = it.group) "
        "and not exists(outputs, o -> coalesce(o.op = it.op, false))",
        order=["it.op", "tp", "offset"],
        ops="array(it.op)",
        absence="true",
        detail={
            "operation": operation("it.op"),
            "input": place(),
            "why": "'the offsets cover an input that no output names'",
        },
    ),
    Rule(
        NAME,
        "spans",
        where=f"not journaled and {MIXED}",
        order=["log_tp", "log_offset"],
        ops=SPAN_OPS,
        detail={
            "operation": span(),
            "records": f"transform(slice(records, 1, {SHOWN}), r -> {place('r.tp', 'r.offset')})",
            "offsets": "transform(commits, c -> struct(c.tp as tp, c.committed as committed, c.effect as fate))",
        },
    ),
    Rule(
        NAME,
        "spans",
        each="flatten(transform(filter(records, r -> decided = 'commit' and not r.arbitrary), "
        "r -> transform(r.inputs, i -> struct(r.tp as tp, r.offset as offset, i as input))))",
        where="whole and array_contains(reads, it.input.tp) and not exists(commits, c -> c.tp = it.input.tp "
        "and c.first <= it.input.offset and it.input.offset < c.committed)",
        order=["log_tp", "log_offset", "it.tp", "it.offset"],
        ops=SPAN_OPS,
        absence="true",
        detail={
            "operation": span(),
            "input": place("it.input.tp", "it.input.offset"),
            "record": place("it.tp", "it.offset"),
            "why": f"'{NOT_COVERED}'",
        },
    ),
    Rule(
        NAME,
        "spans",
        each="commits",
        where="not journaled and it.effect = 'commit' and it.committed > it.end",
        order=["log_tp", "log_offset", "it.tp"],
        ops=SPAN_OPS,
        detail={
            "operation": span(),
            "input": place("it.tp", "it.committed"),
            "why": "'an offset stands beyond the end of its partition'",
        },
    ),
)
"""One finding for each operation and clause; of the clauses over inputs, for each operation and input."""
OUTSIDE = "an offset was committed outside a transaction"


def offset_output_mismatch(t: Tables) -> DataFrame:
    """One row for each offset commit outside any transaction that went past an input of which only a last record is
    judged, where the topic of that is written in transactions: which of them holds the input nobody knows.
    """
    within = (
        t.spans.where("decided = 'commit' and not journaled")
        .selectExpr("run", "explode(records.tp) as tp")
        .distinct()
        .join(beside(t.tps.select("run", "tp", "topic")), on=["run", "tp"])
        .select("run", "topic")
        .distinct()
    )
    by_group = "partition by run, commit.group, commit.tp order by offset"
    before = f"{by_group} rows between unbounded preceding and 1 preceding"
    passed = (
        t.positions.where("commit.committed is not null and fate in ('commit', 'plain')")
        .selectExpr(
            *(
                "run",
                "tp as log_tp",
                "offset as log_offset",
                "fate",
                "commit.group",
                "commit.tp",
                "commit.committed",
            ),
            f"coalesce(max(commit.committed) over ({before}), 0) as first",
        )
        .where("fate = 'plain' and committed > first")
        .selectExpr("*", "explode(sequence(first, committed - 1)) as offset")
    )
    due = (
        t.inputs.where("visible and size(adds) > 0")
        .selectExpr("run", "tp", "offset", "inline(adds)")
        .join(beside(within), on=["run", "topic"], how="left_semi")
        .select("run", "group", "tp", "offset")
        .distinct()
    )
    found = (
        passed.join(due, on=["run", "group", "tp", "offset"], how="left_semi")
        .groupBy("run", "group", "tp", "log_tp", "log_offset", "committed")
        .agg(F.expr("min(offset) as input"))
    )
    return finding(
        found,
        NAME,
        order=["log_tp", "log_offset"],
        group="group",
        input=place("tp", "input"),
        offsets="array(struct(tp as tp, committed as committed))",
        why=f"'{OUTSIDE}'",
    )


def _known_sentence(e: Example) -> str | None:
    """The sentence of the clauses that have one of their own."""
    why = e.rest.get("why")
    if why == OUTSIDE and e.inputs:
        group, told = (
            printable(e.rest.get("group"), 60),
            listed([named_offset(one.body) for one in e.offsets]),
        )
        return f"group {group} committed {told} outside any transaction, past {e.input}, whose output is written in one"
    if why == OUTSIDE_ITS_OWN:
        parts = [named_record(part.body) for part in e.records]
        parts += [f"its offset of {named_offset(part.body)}" for part in e.offsets]
        return f"{e.operation} is a transaction, and {listed(parts, 3)} was written outside it"
    if why == WITHOUT_OFFSETS:
        gone = listed([named_offset(part.body) for part in e.offsets], 3)
        return f"{e.operation} was committed, and its offset of {gone} is not in the log of offset commits"
    if why == IN_NO_TRANSACTION:
        return f"{e.record} is in no transaction, though its topic is written in transactions"
    if why == NOT_COVERED and e.records and e.inputs:
        return f"{named_place(e.records[0].body)} comes from {e.input}, whose offset {e.operation} did not commit"
    return None


def _sentence(e: Example) -> str:
    if (known := _known_sentence(e)) is not None:
        return known
    why = e.rest.get("why")
    if why is not None and e.inputs:
        named = f" ({named_record(e.records[0].body)})" if e.records else ""
        return f"in {e.operation} {printable(why, 100)}{named}: {named_place(e.inputs[0].body)}"
    parts = [
        f"{named_place(part.body)} is {fate(part.body)}"
        for part in e.records
        if part.body.get("fate") is not None
    ]
    parts += [
        f"its offset of {named_offset(part.body)} is {fate(part.body)}"
        for part in e.offsets
        if part.body.get("fate") is not None
    ]
    if not parts:
        parts = [f"it committed {named_offset(part.body)}" for part in e.offsets if part.label == "offset"]
    return f"in {e.operation} the outputs and the committed offsets disagree" + (
        f": {listed(parts)}" if parts else ""
    )


TOLD = {
    "offset-output-mismatch": Told(
        "disagreement between outputs and offsets",
        "disagreements between outputs and offsets",
        "Outputs and input offsets of one transaction stand or fall together, for the same inputs.",
        _sentence,
    ),
}
