"""Premature offset: an offset was committed beyond what its process had been given.

A committed operation claims inputs up to an offset, or its offset commit in the log stands there; and between
the last input that its process had been given of that partition (or the first that it claims) and that
offset stands a record that the final read-committed reader was given. An offset beyond control records and
aborted ones alone is no anomaly: a consumer's position is there as well.

Illegal because a commit says that all below it was processed; nobody will ever read the inputs that were not.
Evidence: the polls of the process until then, the journal's claims, the fates of the offset commits, and the
final read of the input.

    T1  poll a@4, send x=1, send_offsets a->6, commit     ok      <- premature-offset: a@5 was not given

Blind spot: operations that do not say which inputs they took, and inputs above the end of the final read.
Reference: KIP-98, "consume-transform-produce"; auto-commit before processing is the classic case.
"""

from checkers.findings.build import operation
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example
from harness.results.wording import printable

RULES = (
    Rule(
        "premature-offset",
        "reader_steps",
        where="move = 'ahead'",
        order=["op", "tp"],
        ops="array(op)",
        absence="true",
        detail={
            "operation": operation(),
            "claims": "array(struct(tp as tp, first as first, offset + 1 as next))",
            "given_to": "given_to",
            "inputs_not_given": "skipped",
        },
    ),
)
"""One finding for each operation and partition of its inputs."""


def _sentence(e: Example) -> str:
    count = e.rest.get("inputs_not_given")
    most = "inputs" if count is None else f"{printable(count)} inputs"
    return f"{e.operation} committed an offset beyond {most} that its process had never been given"


WORDING = {
    "premature-offset": AnomalyWording(
        "offset was committed too early",
        "offsets were committed too early",
        "An offset was committed beyond inputs that its process had never been given.",
        _sentence,
    ),
}
