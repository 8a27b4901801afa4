"""Sequence violation: the batches of a producer do not join.

In an uncompacted partition a batch does not begin with the sequence number that follows the last one of
the batch below it of the same producer id and epoch: some are missing between them, or are there twice.
The number after 2147483647 is 0. The first batch of a new epoch begins with 0. The first batch of a producer
in the log is not judged, nor what a broker writes in a producer's name: markers, and offset
commits, each of which has the number 0.

Illegal because the numbers are what makes a producer idempotent: a broker accepts only the next one.
Evidence: the headers of the batches in the leader's log.

    log of x: producer 7, epoch 2, sequences 0 to 4
    log of x: producer 7, epoch 2, sequences 4 to 6       <- sequence-violation: 5 was due

Blind spot: what is missing at the end of an epoch, and at the end of the log.
Reference: KIP-98, "idempotent producer guarantees".
"""

from checkers.findings.build import record_place
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example, describe_place
from harness.results.wording import printable

NUMBERS = 2**31
"""How many sequence numbers there are."""
FOLLOWING = "pmod(cast(batch_before.base_sequence as bigint) "
FOLLOWING += f"+ batch_before.last_offset - batch_before.base_offset + 1, {NUMBERS})"
DUE = f"if(batch_before.epoch = epoch, {FOLLOWING}, 0)"

RULES = (
    Rule(
        "sequence-violation",
        "batches",
        where="not internal and not compacted and producer_id >= 0 and base_sequence >= 0 "
        f"and batch_before.epoch <= epoch and base_sequence != {DUE}",
        order=["tp", "base_offset"],
        detail={
            "record": record_place("tp", "base_offset"),
            "record_before": record_place("tp", "batch_before.last_offset"),
            "producer_id": "producer_id",
            "epoch": "epoch",
            "sequence": "base_sequence",
            "sequence_due": DUE,
        },
    ),
)
"""One finding for each batch that does not join."""


def _sentence(e: Example) -> str:
    found, due = printable(e.rest.get("sequence")), printable(e.rest.get("sequence_due"))
    at = describe_place(e.inner("record"))
    return f"the batch at {at}, {e.producer}, begins with sequence {found}, where {due} was due"


WORDING = {
    "sequence-violation": AnomalyWording(
        "batch does not join the one before it",
        "batches do not join the ones before them",
        "A producer numbers its records, and a broker takes only the next number. Here some are missing, "
        "or stand in the log twice.",
        _sentence,
    ),
}
