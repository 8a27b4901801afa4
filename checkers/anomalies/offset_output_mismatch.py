"""Offset-output mismatch: the offsets and the outputs of one transaction do not belong together.

An operation claims the inputs that it took: for each partition a range, which its journal names. One of these is true
of an operation:

- An offset commit and an output have different fates: one is committed, and the other is aborted. Here an offset
  commit outside any transaction counts as committed.
- An output or an offset commit of a transaction was written outside the transaction.
- The operation committed, but its offset commit is missing, or does not match the inputs that the operation claims.
- A visible output names an input outside the claim of the operation.
- The claim of the operation holds a visible input that must lead to outputs. The operation wrote outputs, but none of
  them names that input.

A transaction that holds only offsets, or only outputs, is no anomaly.

Illegal because exactly-once depends on one atomic step: the outputs and the offsets of their inputs take effect
together or not at all.
Evidence: the claims and sends in the journal, and the fates of records and of offset commits.

    T1  poll a@4, send x=1 (from a@4), send_offsets a->5, commit     ok
    log of x: 1 at offset 7, abort at offset 8
    log of __consumer_offsets: a->5, commit                                 <- offset-output-mismatch

Without journals: a visible record is in no transaction, though its stage must write to that topic in transactions.
Or the offsets of a transaction do not cover the input of one of its outputs. They cover the inputs from the offset
that the group had committed before; if they go back, they cover all inputs below them. Or an offset is beyond the end
of its partition. If an input is covered and led to nothing, the finding is a `lost-input`.

If only the last record of a key is checked (`final`), one more rule applies: an offset commit outside any transaction
goes past an input, though its stage must write to the topic of that last record in transactions.

Blind spot: offset commits that are gone because their topic is compacted, and offset commits that do not name an
operation.
Reference: KIP-98, "consume-transform-produce"; KIP-447.
"""

from pyspark.sql import DataFrame

from checkers.findings import (
    LOG_TRANSACTION_OPS,
    MAX_SHOWN,
    AnomalyWording,
    Rule,
    Suspect,
    finding,
    join_shown,
    log_transaction,
    offsets,
    operation,
    record,
    record_position,
    records,
)
from checkers.spark.frames import broadcast
from checkers.stored.inputs import ADDING
from checkers.stored.operations import CLAIMS_WITHOUT_COMMIT
from checkers.stored.tables import Tables
from harness.common.wording import join_words, printable
from harness.results.example import Example

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
RECORDS_OUTSIDE = "part of it was written outside the transaction"
IN_NO_TRANSACTION = "a record is in no transaction, though its stage must write to that topic in transactions"
NOT_COVERED = "an output comes from an input that the offsets do not cover"
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
            "why": f"'{RECORDS_OUTSIDE}'",
        },
    ),
    Rule(
        NAME,
        "operations",
        where="transactional and reported_end = 'unknown' and settled = 'committed' "
        f"and size({CLAIMS_WITHOUT_COMMIT}) > 0",
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
            "input": record_position(),
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
            "input": record_position(),
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
            "records": f"transform(slice(records, 1, {MAX_SHOWN}), r -> {record_position('r.tp', 'r.offset')})",
            "offsets": "transform(commits, c -> struct(c.tp as tp, c.committed as committed, c.effect as fate))",
        },
    ),
    Rule(
        NAME,
        "log_transactions",
        elements="flatten(transform(filter(records, r -> decided = 'commit' and not r.arbitrary), "
        "r -> transform(r.inputs, i -> struct(r.tp as tp, r.offset as offset, i as input))))",
        where="whole and array_contains(reads, element.input.tp) and not exists(commits, c -> c.tp = element.input.tp "
        "and (c.first <= element.input.offset or c.committed < c.first) and element.input.offset < c.committed)",
        order=["log_tp", "log_offset", "element.tp", "element.offset"],
        ops=LOG_TRANSACTION_OPS,
        absence="true",
        detail={
            "operation": log_transaction(),
            "input": record_position("element.input.tp", "element.input.offset"),
            "record": record_position("element.tp", "element.offset"),
            "offsets": "transform(filter(commits, c -> c.tp = element.input.tp and c.effect = 'commit'), "
            "c -> struct(c.tp as tp, c.first as first, c.committed as committed))",
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
            "input": record_position("element.tp", "element.committed"),
            "why": "'an offset is beyond the end of its partition'",
        },
    ),
)
"""One finding for each operation and rule. For the rules over inputs: one for each operation and input."""
OFFSETS_OUTSIDE = "an offset was committed outside a transaction"
SUSPECTS = (Suspect("inputs", ADDING),)


def offset_output_mismatch(tables: Tables) -> DataFrame:
    """Return one row for each offset commit outside any transaction that went past an input of an aggregate.

    Only the last record of a key is checked in these runs, and the stage must write to its topic in transactions. It
    is not known which transaction processed the input.
    """
    within = (
        tables.log_transactions.where("decided = 'commit' and not journaled")
        .selectExpr("run", "explode(records.tp) as tp")
        .distinct()
        .join(broadcast(tables.tps.select("run", "tp", "topic")), on=["run", "tp"])
        .select("run", "topic")
        .distinct()
    )
    by_group = "partition by run, commit.group, commit.tp order by offset"
    before = f"{by_group} rows between unbounded preceding and 1 preceding"
    passed = (
        tables.log_entries.where("commit.committed is not null and fate in ('commit', 'plain')")
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
        .selectExpr(
            *("run", "group", "tp", "first as offset"),
            "struct(log_tp, log_offset, committed) as passed",
        )
    )
    due = (
        tables.inputs.where(ADDING)
        .selectExpr("run", "tp", "offset", "inline(adds)")
        .join(broadcast(within), on=["run", "topic"], how="left_semi")
        .select("run", "group", "tp", "offset")
        .distinct()
    )
    # A commit may go billions of offsets too far, so its offsets are not listed: the first input at or behind `first`.
    onward = "partition by run, group, tp order by offset range between current row and unbounded following"
    commits_outside = (
        passed.unionByName(due, allowMissingColumns=True)
        .selectExpr("*", f"min(if(passed is null, offset, null)) over ({onward}) as input")
        .where("passed is not null and input < passed.committed")
        .select("run", "group", "tp", "passed.*", "input")
    )
    return finding(
        commits_outside,
        NAME,
        order=["log_tp", "log_offset"],
        group="group",
        input=record_position("tp", "input"),
        offsets="array(struct(tp as tp, committed as committed))",
        why=f"'{OFFSETS_OUTSIDE}'",
    )


def _sentence_for_rule(e: Example) -> str | None:
    """Return the sentence of the rule that found the example, or None if there is no sentence for that rule."""
    why = e.rest.get("why")
    if why == OFFSETS_OUTSIDE and e.inputs:
        group = printable(e.rest.get("group"), 60)
        committed = join_words([part.words for part in e.offsets])
        return (
            f"group {group} committed {committed} outside any transaction and went past {e.input}, but the output of "
            "that input is written in a transaction"
        )
    if why == RECORDS_OUTSIDE:
        parts = [part.words for part in e.records]
        parts += [f"its offset of {part.words}" for part in e.offsets]
        return f"{e.operation} is a transaction, but {join_shown(parts, 3)} was written outside it"
    if why == WITHOUT_OFFSETS:
        gone = join_words([part.words for part in e.offsets], 3)
        return (
            f"{e.operation} was committed, but its offset of {gone} is not in the log of __consumer_offsets"
        )
    if why == IN_NO_TRANSACTION:
        return f"{e.record} is in no transaction, but its stage must write to that topic in transactions"
    if why == NOT_COVERED and e.records and e.inputs:
        record = e.records[0].position
        moved = [part.words for part in e.offsets]
        own = f"committed {join_words(moved, 3)}" if moved else "committed no offset of that partition"
        return f"{record} comes from {e.input}, but {e.operation} {own}"
    return None


def _sentence(e: Example) -> str:
    if (sentence := _sentence_for_rule(e)) is not None:
        return sentence
    why = e.rest.get("why")
    if why is not None and e.inputs:
        output = f" ({e.records[0].words})" if e.records else ""
        return f"in {e.operation} {printable(why, 100)}{output}: {e.inputs[0].position}"
    parts = [f"{part.position} is {part.fate}" for part in e.records if part.get("fate") is not None]
    parts += [
        f"its offset of {part.words} is {part.fate}" for part in e.offsets if part.get("fate") is not None
    ]
    if not parts:
        parts = [f"it committed {part.words}" for part in e.offsets if part.label == "offset"]
    return f"in {e.operation} the outputs and the committed offsets do not match" + (
        f": {join_shown(parts)}" if parts else ""
    )


WORDING = {
    "offset-output-mismatch": AnomalyWording(
        "mismatch of outputs and offsets",
        "mismatches of outputs and offsets",
        "The outputs of a transaction and the offsets of their inputs must take effect together, or not at all. Here "
        "they do not.",
        _sentence,
    ),
}
