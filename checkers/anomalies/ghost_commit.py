"""Ghost commit: a transaction took effect although its client did not commit it.

Its records or its offset commit are committed. But its client never invoked the commit, invoked an abort, or got the
answer that the commit had failed. If brokers and clients have one clock, a commit marker that is older than the
invocation of the commit is a ghost commit as well.

Illegal because the pipeline processes the inputs of such a transaction again, so its outputs exist twice.
Evidence: the journal, because a process writes it before it acts. A journal with missing lines is no evidence. The
other evidence is the first marker of the producer above the record.

    T1  send x=1, abort     fail
    log of x: 1 at offset 4, commit at offset 5      <- ghost-commit

Not this anomaly: a record, offset commit or marker of an epoch that the coordinator did not give to its transaction is
a `zombie-write`, also if its client asked to abort.
Blind spot: an `info` operation whose commit was invoked may end either way.
Reference: KAFKA-17754; Jepsen on Bufstream 0.1.0 (2024), "aborted read".
"""

from checkers.findings import AnomalyWording, Rule, offsets, operation, records
from checkers.stored.sources import CLOCK_MARGIN_MS
from harness.common.wording import error_code, printable
from harness.results.example import Example

RECORDS = "filter(records, r -> r.effect = 'commit')"
OFFSETS = "filter(commits, c -> c.transactional and c.effect = 'commit')"
EARLY = f"marker_ms + {CLOCK_MARGIN_MS:g} < wall_ms + operation.commit_ns / 1e6"
"""The marker is older than the invocation of the commit."""
EARLY_RECORDS = f"filter(records, r -> r.effect = 'commit' and r.{EARLY})"
EARLY_OFFSETS = f"filter(commits, c -> c.transactional and c.effect = 'commit' and c.{EARLY})"
SOME_EARLY = f"array_min(concat(records.marker_ms, commits.marker_ms)) + {CLOCK_MARGIN_MS:g}"
SOME_EARLY += " < wall_ms + operation.commit_ns / 1e6"
"""At least one marker is early. This costs less than a condition on each record."""
BEFORE = "nothing yet: the commit was invoked after the marker had been written"

RULES = (
    Rule(
        "ghost-commit",
        "operations",
        where="transactional and sound "
        "and (reported_end = 'aborted' or reported_end = 'unknown' and operation.commit_ns is null) "
        f"and (size({RECORDS}) > 0 or size({OFFSETS}) > 0)",
        order=["op"],
        ops="array(op)",
        detail={
            "operation": operation(),
            "told": "if(reported_end = 'aborted', 'it had not happened', 'nothing: the commit was never invoked')",
            "records": records(RECORDS),
            "offsets": offsets(OFFSETS),
        },
    ),
    Rule(
        "ghost-commit",
        "operations",
        where="transactional and sound and reported_end != 'aborted' and operation.commit_ns is not null "
        f"and {SOME_EARLY} and (size({EARLY_RECORDS}) > 0 or size({EARLY_OFFSETS}) > 0)",
        order=["op"],
        ops="array(op)",
        detail={
            "operation": operation(),
            "told": f"'{BEFORE}'",
            "records": records(EARLY_RECORDS),
            "offsets": offsets(EARLY_OFFSETS),
        },
    ),
)


def _sentence(e: Example) -> str:
    operation, knowledge = e.first_operation, printable(e.rest.get("told"), 80)
    if operation.get("asked") == "abort":
        why = "its worker asked for an abort"
    elif knowledge == BEFORE:
        why = "its worker asked for the commit only after that"
    elif knowledge.startswith("nothing") or (
        "commit_ns" in operation.facts and operation.get("commit_ns") is None
    ):
        why = "its worker never asked for the commit"
    else:
        error = operation.get("error")
        why = "its worker got the answer that the commit had failed" + (
            f" ({error_code(str(error))})" if error else ""
        )
    if e.records or not e.offsets:
        return f"{e.record} of {e.operation} is committed, but {why}"
    return f"the offset {e.offsets[0].words} of {e.operation} is committed, but {why}"


WORDING = {
    "ghost-commit": AnomalyWording(
        "transaction took effect, though its worker had not committed it",
        "transactions took effect, though their workers had not committed them",
        "The broker log says that a transaction is committed, but its client never asked for the commit, or got the "
        "answer that it had failed.",
        _sentence,
    ),
}
