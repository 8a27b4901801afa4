"""Lost commit: the client got the answer that its transaction had committed, but a part of it did not.

A record of the transaction that is in the log, or its offset commit, has fate abort. Or a record that was acknowledged
is gone from the log. Or an offset commit is gone: by its journal, the operation claimed a range of inputs of a
partition, but no offset commit of that partition names the operation. The last rule applies only to a group that
commits within transactions, in an uncompacted log, where each of these commits names its operation.

Illegal because a completed commit is a promise: the inputs will not be read again, so what is lost stays lost.
Evidence: the completion `ok` of a commit, and the fates in the leaders' logs. An `info` commit is no evidence.

    T1  send x=1, send_offsets y->5, commit     ok
    log of x: 1 at offset 4, abort at offset 5              <- lost-commit
    log of __consumer_offsets: y->5, commit

Blind spot: records that are gone and were never acknowledged with an offset.
Reference: KAFKA-17754; Jepsen on Bufstream 0.1.0 (2024), "lost writes".
"""

from checkers.findings import AnomalyWording, Rule, join_shown, offsets, operation, records
from checkers.stored.operations import CLAIMS_WITHOUT_COMMIT
from harness.results.example import Example

ABORTED = "filter(records, r -> r.effect = 'abort')"
GONE = "filter(records, r -> r.covered and not r.held)"
OFFSETS = "filter(commits, c -> c.transactional and c.effect = 'abort')"
SOME_ABORTED = "coalesce(array_contains(records.effect, 'abort'), false)"
SOME_GONE = f"(coalesce(array_contains(records.held, false), false) and size({GONE}) > 0)"
"""Conditions on an operation with such records. The first half of each is cheaper than a condition on each record."""

RULES = (
    Rule(
        "lost-commit",
        "operations",
        where="transactional and reported_end = 'committed' "
        f"and ({SOME_ABORTED} or {SOME_GONE} or size({OFFSETS}) > 0 or size({CLAIMS_WITHOUT_COMMIT}) > 0)",
        order=["op"],
        ops="array(op)",
        absence=f"(size({ABORTED}) = 0 and size({OFFSETS}) = 0)",
        detail={
            "operation": operation(),
            "aborted_records": records(ABORTED),
            "gone_records": records(GONE),
            "aborted_offsets": offsets(OFFSETS),
            "gone_offsets": f"if(size({CLAIMS_WITHOUT_COMMIT}) > 0, {offsets(CLAIMS_WITHOUT_COMMIT, 'next')}, null)",
        },
    ),
)
"""One finding for each transaction."""


def _sentence(e: Example) -> str:
    lost = []
    for record in e.records:
        ends = record.fate if record.get("fate") is not None else "gone"
        ends = {"aborted_record": "aborted", "gone_record": "gone"}.get(record.label, ends)
        lost.append(f"{record.words} is {ends}")
    for offset in e.offsets:
        ends = "aborted" if offset.label.startswith("aborted") else "gone"
        lost.append(f"its offset of {offset.words} is {ends}")
    effect = join_shown(lost, 3) if lost else "what it wrote did not take effect"
    return f"{e.operation} got the answer that its commit had succeeded, but {effect}"


WORDING = {
    "lost-commit": AnomalyWording(
        "acknowledged commit was lost",
        "acknowledged commits were lost",
        "A worker got the answer that its commit had succeeded, but the broker log lacks a part of the transaction, or "
        "has it as aborted.",
        _sentence,
    ),
}
