"""Corrupt: a record's content is not what it must be.

Key, value and headers differ, by hash, from what was sent; or a visible output differs from what the
workload's transform makes of its input, where the transform is deterministic and the output comes from
one input.

Illegal because a record that arrives is meant to arrive as it was.
Evidence: the hashes in the sender's journal, in the workload's expectation, and of the record in the
final read. The header that names the attempt is left out of the hash, for it differs at each attempt.

    T1  send x=1, hash 77     ok
    final read of x: 1 at offset 4, hash 78      <- corrupt
    final read of x: 2 at offset 5, hash 79

Without journals: an output that is joined to an input, and holds something else than the input must lead to.

Blind spot: records of which nobody recorded a hash.
Reference: Kafka's CRC covers a batch on its way and at rest, not what a client put into it.
"""

from checkers.findings.build import operation, record, record_place
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example

NAME = "corrupt"
MEANT = "filter(expected, e -> e.output_name = element.output_name and e.topic = element.topic)"

RULES = (
    Rule(
        NAME,
        "attempts",
        elements="places",
        # A pipeline may forward the header that names a value: it means the record of one topic.
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
        f"and size({MEANT}) > 0 and forall({MEANT}, e -> coalesce(e.digest != element.digest, false))",
        order=["element.tp", "element.offset"],
        ops="array(element.op)",
        detail={
            "record": record("element.tp", "element.offset", "element.name"),
            "operation": operation("element.op"),
            "input": record_place(),
            "slot": "element.output_name",
            "why": "'it differs from what its input must lead to'",
        },
    ),
)


def _sentence(e: Example) -> str:
    if e.inputs:
        contents = (
            ""
            if None in (e.content, e.expected_content)
            else f": it holds {e.content}, and {e.expected_content} was due"
        )
        return f"{e.record} is not what {e.input} must lead to{contents}"
    return f"{e.record} is not what {e.operation} sent"


WORDING = {
    "corrupt": AnomalyWording(
        "record is not what was sent",
        "records are not what was sent",
        "Key, value or headers differ from what was sent, or from what the workload makes of the inputs.",
        _sentence,
    ),
}
