"""Dirty read: a consumer promised read committed was given a record that was not committed.

Its fate is abort, or is still open at the end; or its fate is commit and the poll had completed before
the marker was written, which is judged only where one clock serves the clients and the brokers, with a
margin of 50 ms, and not if the wall clock has moved by more than half of that. A record that the log does
not hold, or another value at its offset, is no evidence.

Illegal because read committed ends at the last stable offset, where the first open transaction begins.
Evidence: the delivery, the fate of the record in the leader's log, and the marker's time stamp.

    T1  send x=1                 info
    T2  poll x=1 at offset 4     ok
    log of x: 1 at offset 4, abort marker at offset 5      <- dirty-read

Blind spot: a poll within the margin before the marker.
Reference: Berenson et al. 1995, P1, "dirty read"; Adya 1999, G1a; KIP-98, "read_committed".
"""

from checkers.findings.build import reader, record
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from checkers.stored.log_entries import READERS
from checkers.stored.sources import CLOCK_MARGIN_MS
from harness.model.vocabulary import Isolation
from harness.results.example import Example, fate
from harness.results.wording import printable

RETURNED_MS = "(wall_ms + return_ns / 1e6)"
TOO_EARLY = f"coalesce(fate = 'commit' and {RETURNED_MS} + {CLOCK_MARGIN_MS}D < marker_ms, false)"
"""The poll had returned before the commit marker was written; false where the clocks are not one."""

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
        return f"{e.reader} read {e.record} {printable(early, 30)} ms before its marker was written"
    if e.first_record().get("fate") == "commit":
        return f"{e.reader} read {e.record} before it was committed"
    return f"{e.reader} read {e.record}, which is {fate(e.first_record())}"


WORDING = {
    "dirty-read": AnomalyWording(
        "delivery of a record came before its commit, or without",
        "deliveries of records came before their commit, or without",
        "A consumer that was promised committed records was given one that the brokers' log calls aborted "
        "or open, or that was not committed yet.",
        _sentence,
    ),
}
