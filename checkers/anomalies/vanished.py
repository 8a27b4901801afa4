"""Vanished: a record that a consumer was given is not there any more.

A record was given to a consumer promised read committed, and the final read-committed reader, which began
below its offset and read on beyond it, was not given it. A record that the log calls aborted or open is a
`dirty-read` and no more. A compacted partition proves nothing, nor does what lies below the start of its
log.

Illegal because what was committed stays committed: whoever reads the partition afterwards comes to other
conclusions than the one who has acted on the record.
Evidence: the delivery, and the final read of the partition.

    T1  poll x: 1 at offset 4      ok
    final read of x: 2 at offset 5          <- vanished

Blind spot: records that nobody but the final reader was given.
Reference: Kingsbury, Redpanda 21.10.1 (2022), "lost writes"; unclean leader election.
"""

from checkers.findings.build import reader, record
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from checkers.stored.log_entries import READERS
from harness.model.vocabulary import Isolation
from harness.results.example import Example

RULES = (
    Rule(
        "vanished",
        "deliveries",
        where=f"vanished and promised = '{Isolation.READ_COMMITTED.value}'",
        order=["tp", "offset", "op", "n"],
        ops=READERS,
        absence="true",
        detail={"record": record(), "reader": reader()},
    ),
)
"""One finding for each record and delivery."""


def _sentence(e: Example) -> str:
    return f"{e.reader} read {e.record}, and the final reader came past it and was not given it"


WORDING = {
    "vanished": AnomalyWording(
        "record was read and is gone",
        "records were read and are gone",
        "A consumer was given a record that the final reader, which came past its place, was not given.",
        _sentence,
    ),
}
