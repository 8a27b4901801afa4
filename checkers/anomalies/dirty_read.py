"""Dirty read: a consumer that is promised read committed received a record that was not committed.

The fate of the record is abort, or the record is still open at the end of the run. Or its fate is commit, but the poll
completed before the marker was written. The last rule applies only if the clients and the brokers have one clock. It
has a margin of 50 ms. It does not apply if the wall clock moved by more than 25 ms against the monotonic clock during
the run. There is no finding if the log does not hold the record, or holds another value at its offset.

Illegal because read committed ends at the last stable offset, where the first open transaction begins.
Evidence: the delivery, the fate of the record in the leader's log, and the time stamp of the marker.

    T1  send x=1                 info
    T2  poll x=1 at offset 4     ok
    log of x: 1 at offset 4, abort marker at offset 5      <- dirty-read

Blind spot: a poll that completed within the margin before the marker.
Reference: Berenson et al. 1995, P1, "dirty read"; Adya 1999, G1a; KIP-98, "read_committed".
"""

from checkers.findings import AnomalyWording, Rule, reader, record
from checkers.stored.broker_log import READERS
from checkers.stored.sources import CLOCK_MARGIN_MS
from harness.common.wording import printable
from harness.model.vocabulary import Isolation
from harness.results.example import Example

RETURNED_MS = "(wall_ms + return_ns / 1e6)"
TOO_EARLY = f"coalesce(fate = 'commit' and {RETURNED_MS} + {CLOCK_MARGIN_MS}D < marker_ms, false)"
"""The poll returned before the commit marker was written. False if clients and brokers do not have one clock."""

RULES = (
    Rule(
        "dirty-read",
        "deliveries",
        where=f"promised = '{Isolation.READ_COMMITTED.value}' "
        f"and (fate in ('abort', 'open') or {TOO_EARLY}) and not coalesce(value != stored, false)",
        order=["tp", "offset", "op", "n"],
        ops=READERS,
        detail={
            "record": record(),
            "reader": reader(),
            "early_ms": f"if({TOO_EARLY}, round(marker_ms - {RETURNED_MS}, 1), null)",
        },
    ),
)


def _sentence(e: Example) -> str:
    early = e.rest.get("early_ms")
    if early is not None:
        return f"{e.reader} read {e.record}, {printable(early, 30)} ms before its marker was written"
    if e.first_record.get("fate") == "commit":
        return f"{e.reader} read {e.record} before it was committed"
    return f"{e.reader} read {e.record}, which is {e.first_record.fate}"


WORDING = {
    "dirty-read": AnomalyWording(
        "read returned a record that was not committed",
        "reads returned records that were not committed",
        "A consumer that is promised read committed received a record that is aborted or open in the broker log, "
        "or that was not committed yet.",
        _sentence,
    ),
}
