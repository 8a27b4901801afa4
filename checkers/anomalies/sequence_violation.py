"""Sequence violation: the sequence numbers of a producer's batches are not consecutive.

In an uncompacted partition, each batch is compared with the batch before it of the same producer id and epoch. It must
begin with the sequence number after the last one of that batch. Here it does not: numbers are missing between the two
batches, or are there twice. The number after 2147483647 is 0. The first batch of a new epoch begins with 0. The first
batch of a producer in the log is not checked. Neither are records that a broker writes in the name of a producer:
markers, and offset commits, each of which has the number 0.

Illegal because the numbers make a producer idempotent: a broker accepts only the next one.
Evidence: the headers of the batches in the leader's log.

    log of x: producer 7, epoch 2, sequences 0 to 4
    log of x: producer 7, epoch 2, sequences 4 to 6       <- sequence-violation: 5 was expected

Blind spot: numbers that are missing at the end of an epoch or at the end of the log.
Reference: KIP-98, "idempotent producer guarantees".
"""

from checkers.findings import AnomalyWording, Rule, record_position
from harness.common.wording import printable
from harness.results.example import Example

NUMBERS = 2**31
"""The count of all sequence numbers."""
NEXT_SEQUENCE = "pmod(cast(batch_before.base_sequence as bigint) "
NEXT_SEQUENCE += f"+ batch_before.last_offset - batch_before.base_offset + 1, {NUMBERS})"
EXPECTED_SEQUENCE = f"if(batch_before.epoch = epoch, {NEXT_SEQUENCE}, 0)"

RULES = (
    Rule(
        "sequence-violation",
        "batches",
        where="not internal and not compacted and producer_id >= 0 and base_sequence >= 0 "
        f"and batch_before.epoch <= epoch and base_sequence != {EXPECTED_SEQUENCE}",
        order=["tp", "base_offset"],
        absence="lacks_records",  # perhaps a batch between the two
        detail={
            "record": record_position("tp", "base_offset"),
            "record_before": record_position("tp", "batch_before.last_offset"),
            "producer_id": "producer_id",
            "epoch": "epoch",
            "sequence": "base_sequence",
            "sequence_due": EXPECTED_SEQUENCE,
        },
    ),
)
"""One finding for each batch that begins with a wrong number."""


def _sentence(e: Example) -> str:
    sequence, expected = printable(e.rest.get("sequence")), printable(e.rest.get("sequence_due"))
    at = e.first_record.position
    return f"the batch at {at} {e.producer} begins with sequence {sequence}, but {expected} was expected"


WORDING = {
    "sequence-violation": AnomalyWording(
        "batch begins with a wrong sequence number",
        "batches begin with a wrong sequence number",
        "A producer numbers its records, and a broker accepts only the next number. Here numbers are missing in the "
        "log, or are there twice.",
        _sentence,
    ),
}
