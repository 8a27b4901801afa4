"""Ghost commit: a transaction took effect although nobody committed it.

Its records or its offset commit have fate commit, though its client never invoked the commit, or was
told that it had not happened, or had asked for an abort.

Illegal because the inputs of such a transaction are read again, and its outputs then stand twice.
Evidence: the journal, which is written before the act (a journal with missing lines is no evidence),
and the first marker of the producer above the record.

    T1  send x=1, abort     fail
    log of x: 1 at offset 4, commit at offset 5      <- ghost-commit

Blind spot: an `info` whose commit was invoked may end either way.
Reference: KAFKA-17754; Jepsen on Bufstream 0.1.0 (2024), "aborted read".
"""

from checkers.findings.build import offsets, operation, records
from checkers.findings.rules import Rule

RECORDS = "filter(records, r -> r.effect = 'commit')"
OFFSETS = "filter(commits, c -> c.transactional and c.effect = 'commit')"

RULES = (
    Rule(
        "ghost-commit",
        "operations",
        where="transactional and sound "
        "and (told = 'aborted' or told = 'unknown' and operation.commit_ns is null) "
        f"and (size({RECORDS}) > 0 or size({OFFSETS}) > 0)",
        order=["op"],
        ops="array(op)",
        detail={
            "operation": operation(),
            "told": "if(told = 'aborted', 'it had not happened', 'nothing: the commit was never invoked')",
            "records": records(RECORDS),
            "offsets": offsets(OFFSETS),
        },
    ),
)
