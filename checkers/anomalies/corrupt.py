"""Corrupt: the content of a record is not what it must be.

The hash of the key, value and headers of a record differs from the hash of what was sent. Or a visible output differs
from what the transform of the workload makes of its input. The second rule applies only if the transform is
deterministic and the output comes from one input.

Illegal because a record must arrive as it was sent.
Evidence: the hashes in the journal of the sender, in the expected outputs of the workload, and in the final read. The
hash does not cover the header that names the attempt, because that header differs for each attempt.

    T1  send x=1, hash 77     ok
    final read of x: 1 at offset 4, hash 78      <- corrupt
    final read of x: 2 at offset 5, hash 79

Without journals: an output that is joined to an input does not hold what the input must lead to. Its headers, time
stamp and partition count if `compare` names them for its topic.

Blind spot: records of which no hash was recorded.
Reference: Kafka's CRC covers a batch in transit and at rest. It does not cover what a client put into the batch.
"""

from checkers.findings import AnomalyWording, Rule, operation, record, record_position
from harness.results.example import Example

NAME = "corrupt"
EXPECTED = "filter(expected, e -> e.output_name = element.output_name and e.topic = element.topic)"

RULES = (
    Rule(
        NAME,
        "attempts",
        elements="positions",
        # A pipeline may forward the header that names an attempt, so the name counts only in the topic of the send.
        where="element.topic = send.topic and element.digest != send.digest",
        order=["element.tp", "element.offset"],
        ops="array(send.op)",
        detail={
            "record": record("element.tp", "element.offset"),
            "operation": operation("send.op"),
            "why": "'it differs from what was sent'",
        },
    ),
    Rule(
        NAME,
        "inputs",
        elements="outputs",
        where="element.visible and element.sole and element.digest is not null "
        f"and size({EXPECTED}) > 0 and forall({EXPECTED}, e -> coalesce(e.digest != element.digest, false))",
        order=["element.tp", "element.offset"],
        ops="array(element.op)",
        detail={
            "record": record("element.tp", "element.offset", "element.name"),
            "operation": operation("element.op"),
            "input": record_position(),
            "slot": "element.output_name",
            "why": "'it differs from what its input must lead to'",
        },
    ),
)


def _sentence(e: Example) -> str:
    if e.inputs:
        both_known = e.content is not None and e.expected_content is not None
        contents = f": it holds {e.content}, but {e.expected_content} was expected" if both_known else ""
        return f"the content of {e.record} is not what {e.input} must lead to{contents}"
    return f"the content of {e.record} is not what {e.operation} sent"


WORDING = {
    "corrupt": AnomalyWording(
        "record has another content than expected",
        "records have another content than expected",
        "The key, value or headers of a record differ from what was sent, or from what its input must lead to.",
        _sentence,
    ),
}
