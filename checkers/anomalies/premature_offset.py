"""Premature offset: an offset was committed beyond what its process had received.

A committed operation committed an offset: the end of the inputs that it claims, or the offset in the log, if that is
higher. The final read-committed reader received a record below that offset, but above the last input that the process
had received of the partition. Records below the first input that the operation claims do not count. An offset beyond
nothing but control records and aborted records is no anomaly, because the position of a consumer moves past them as
well.

Illegal because a commit says that everything below it was processed. No process will read the skipped inputs again.
Evidence: the polls of the process until then, the claims in the journal, the fates of the offset commits, and the
final read of the input topic.

    T1  poll a@4, send x=1, send_offsets a->6, commit     ok      <- premature-offset: a@5 was not received

Blind spot: operations that do not say which inputs they took, and inputs above the end of the final read.
Reference: KIP-98, "consume-transform-produce"; auto-commit before processing is the classic case.
"""

from checkers.findings import AnomalyWording, Rule, operation
from harness.common.wording import printable
from harness.results.example import Example

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
    skipped = "inputs" if count is None else f"{printable(count)} inputs"
    return f"{e.operation} committed an offset beyond {skipped} that its process had never received"


WORDING = {
    "premature-offset": AnomalyWording(
        "offset was committed too early",
        "offsets were committed too early",
        "An offset was committed beyond inputs that its process had never received.",
        _sentence,
    ),
}
