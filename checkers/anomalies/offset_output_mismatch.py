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
    LOG_TRANSACTION_OPS,
    MAX_SHOWN,
    finding,
    log_transaction,
    offsets,
    operation,
    record,
    record_place,
    records,
)
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.operations import CLAIMS_WITHOUT_COMMIT
from checkers.stored.tables import Tables
from harness.results.example import Example, describe_offset, describe_place, describe_record, fate
from harness.results.wording import join_words, printable

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
        where=f"transactional and told = 'unknown' and settled = 'committed' and size({CLAIMS_WITHOUT_COMMIT}) > 0",
        order=["op"],
        ops="array(op)",
        absence="true",
        detail={
            "operation": operation(),
            "offsets": offsets(CLAIMS_WITHOUT_COMMIT, "next"),
            "why": f"'{WITHOUT_OFFSETS}'",
        },
    ),
    Rule(
        NAME,
        "log_entries",
        where="within_transactions and visible and found and fate = 'plain' and not sentinel and size(acks) = 0",
        order=["tp", "offset"],
        detail={"record": record(), "why": f"'{IN_NO_TRANSACTION}'"},
    ),
    Rule(
        NAME,
        "operations",
        elements="if(size(claims) > 0, commits, array())",
        where="element.effect = 'commit' and element.committed is not null "
        "and not exists(claims, c -> c.tp = element.tp and c.next = element.committed)",
        order=["op", "element.tp"],
        ops="array(op)",
        detail={
            "operation": operation(),
            "offsets": "array(struct(element.tp as tp, element.committed as committed))",
            "claims": "transform(claims, c -> struct(c.tp as tp, c.first as first, c.next as next))",
        },
    ),
    Rule(
        NAME,
        "inputs",
        elements="outputs",
        where="element.visible and element.claims and not exists(claims, c -> c.op = element.op)",
        order=["element.op", "tp", "offset"],
        ops="array(element.op)",
        detail={
            "operation": operation("element.op"),
            "input": record_place(),
            "record": record("element.tp", "element.offset", "element.name"),
            "why": "'an output names an input that the offsets do not cover'",
        },
    ),
    Rule(
        NAME,
        "inputs",
        elements="if(visible, claims, array())",
        where="element.settled = 'committed' and element.writes and exists(expected, e -> e.group = element.group) "
        "and not exists(outputs, o -> coalesce(o.op = element.op, false))",
        order=["element.op", "tp", "offset"],
        ops="array(element.op)",
        absence="true",
        detail={
            "operation": operation("element.op"),
            "input": record_place(),
            "why": "'the offsets cover an input that no output names'",
        },
    ),
    Rule(
        NAME,
        "log_transactions",
        where=f"not journaled and {MIXED}",
        order=["log_tp", "log_offset"],
        ops=LOG_TRANSACTION_OPS,
        detail={
            "operation": log_transaction(),
            "records": f"transform(slice(records, 1, {MAX_SHOWN}), r -> {record_place('r.tp', 'r.offset')})",
            "offsets": "transform(commits, c -> struct(c.tp as tp, c.committed as committed, c.effect as fate))",
        },
    ),
    Rule(
        NAME,
        "log_transactions",
        elements="flatten(transform(filter(records, r -> decided = 'commit' and not r.arbitrary), "
        "r -> transform(r.inputs, i -> struct(r.tp as tp, r.offset as offset, i as input))))",
        where="whole and array_contains(reads, element.input.tp) and not exists(commits, c -> c.tp = element.input.tp "
        "and c.first <= element.input.offset and element.input.offset < c.committed)",
        order=["log_tp", "log_offset", "element.tp", "element.offset"],
        ops=LOG_TRANSACTION_OPS,
        absence="true",
        detail={
            "operation": log_transaction(),
            "input": record_place("element.input.tp", "element.input.offset"),
            "record": record_place("element.tp", "element.offset"),
            "why": f"'{NOT_COVERED}'",
        },
    ),
    Rule(
        NAME,
        "log_transactions",
        elements="commits",
        where="not journaled and element.effect = 'commit' and element.committed > element.end",
        order=["log_tp", "log_offset", "element.tp"],
        ops=LOG_TRANSACTION_OPS,
        detail={
            "operation": log_transaction(),
            "input": record_place("element.tp", "element.committed"),
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
        t.log_transactions.where("decided = 'commit' and not journaled")
        .selectExpr("run", "explode(records.tp) as tp")
        .distinct()
        .join(broadcast(t.tps.select("run", "tp", "topic")), on=["run", "tp"])
        .select("run", "topic")
        .distinct()
    )
    by_group = "partition by run, commit.group, commit.tp order by offset"
    before = f"{by_group} rows between unbounded preceding and 1 preceding"
    passed = (
        t.log_entries.where("commit.committed is not null and fate in ('commit', 'plain')")
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
        .join(broadcast(within), on=["run", "topic"], how="left_semi")
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
        input=record_place("tp", "input"),
        offsets="array(struct(tp as tp, committed as committed))",
        why=f"'{OUTSIDE}'",
    )


def _known_sentence(e: Example) -> str | None:
    """The sentence of the clauses that have one of their own."""
    why = e.rest.get("why")
    if why == OUTSIDE and e.inputs:
        group, told = (
            printable(e.rest.get("group"), 60),
            join_words([describe_offset(one.body) for one in e.offsets]),
        )
        return f"group {group} committed {told} outside any transaction, past {e.input}, whose output is written in one"
    if why == OUTSIDE_ITS_OWN:
        parts = [describe_record(part.body) for part in e.records]
        parts += [f"its offset of {describe_offset(part.body)}" for part in e.offsets]
        return f"{e.operation} is a transaction, and {join_words(parts, 3)} was written outside it"
    if why == WITHOUT_OFFSETS:
        gone = join_words([describe_offset(part.body) for part in e.offsets], 3)
        return f"{e.operation} was committed, and its offset of {gone} is not in the log of offset commits"
    if why == IN_NO_TRANSACTION:
        return f"{e.record} is in no transaction, though its topic is written in transactions"
    if why == NOT_COVERED and e.records and e.inputs:
        return f"{describe_place(e.records[0].body)} comes from {e.input}, whose offset {e.operation} did not commit"
    return None


def _sentence(e: Example) -> str:
    if (known := _known_sentence(e)) is not None:
        return known
    why = e.rest.get("why")
    if why is not None and e.inputs:
        named = f" ({describe_record(e.records[0].body)})" if e.records else ""
        return f"in {e.operation} {printable(why, 100)}{named}: {describe_place(e.inputs[0].body)}"
    parts = [
        f"{describe_place(part.body)} is {fate(part.body)}"
        for part in e.records
        if part.body.get("fate") is not None
    ]
    parts += [
        f"its offset of {describe_offset(part.body)} is {fate(part.body)}"
        for part in e.offsets
        if part.body.get("fate") is not None
    ]
    if not parts:
        parts = [f"it committed {describe_offset(part.body)}" for part in e.offsets if part.label == "offset"]
    return f"in {e.operation} the outputs and the committed offsets disagree" + (
        f": {join_words(parts)}" if parts else ""
    )


WORDING = {
    "offset-output-mismatch": AnomalyWording(
        "disagreement between outputs and offsets",
        "disagreements between outputs and offsets",
        "Outputs and input offsets of one transaction stand or fall together, for the same inputs.",
        _sentence,
    ),
}
