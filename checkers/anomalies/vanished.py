"""Vanished: a record that a consumer received is gone.

A consumer that is promised read committed received a record. The final read-committed reader began below the offset of
the record and read beyond it, but did not receive it. If the log calls the record aborted or open, the finding is only
a `dirty-read`. Two things prove nothing: a compacted partition, and an offset below the start of the log.

Illegal because committed records stay committed. A later reader of the partition comes to other conclusions than the
consumer that has acted on the record.
Evidence: the delivery, and the final read of the partition.

    T1  poll x: 1 at offset 4      ok
    final read of x: 2 at offset 5          <- vanished

Blind spot: records that only the final reader received.
Reference: Kingsbury, Redpanda 21.10.1 (2022), "lost writes"; unclean leader election.
"""

from checkers.findings import AnomalyWording, Rule, reader, record
from checkers.stored.broker_log import READERS
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
    return f"{e.reader} read {e.record}, but the final reader read past it and did not receive it"


WORDING = {
    "vanished": AnomalyWording(
        "record was read and is gone",
        "records were read and are gone",
        "A consumer received a record, but the final reader read past its offset and did not receive it.",
        _sentence,
    ),
}
