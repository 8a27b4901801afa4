"""Read above the last stable offset: a consumer went past a transaction that was still open.

A consumer that is promised read committed received a record above the first open record of its partition. A record is
open if it is transactional and the log has no marker of its producer above it. It was also open when the reader passed
it, because it has never been closed.

Illegal because read committed ends at the last stable offset, where the first open transaction begins. A record there
may still be committed, and a consumer that has gone past it will never receive it.
Evidence: the delivery, and the leader's log.

    log of x: 1 at offset 4 of producer 7, no marker of producer 7 above it
    T1  poll x: 2 at offset 5     ok                                             <- read-above-lso

Blind spot: a transaction that was open when the reader passed it and that ended later.
Reference: KIP-98, "last stable offset"; KAFKA-14402.
"""

from checkers.findings import AnomalyWording, Rule, reader, record, record_position
from checkers.stored.broker_log import READERS
from harness.model.vocabulary import Isolation
from harness.results.example import Example

RULES = (
    Rule(
        "read-above-lso",
        "deliveries",
        where=f"above and promised = '{Isolation.READ_COMMITTED.value}'",
        order=["tp", "offset", "op", "n"],
        ops=READERS,
        detail={
            "record": record(),
            "record_open": record_position("tp", "first_open"),
            "reader": reader(),
        },
    ),
)
"""One finding for each record and delivery."""


def _sentence(e: Example) -> str:
    read, still_open = e.two_records
    return f"{e.reader} read {read}, above {still_open}, which is still open at the end"


WORDING = {
    "read-above-lso": AnomalyWording(
        "record was read above an open transaction",
        "records were read above an open transaction",
        "A consumer that is promised read committed went past a transaction that was still open.",
        _sentence,
    ),
}
