"""A small journal of the protocol proxy, as a run leaves it, with requests that rules changed."""

from pathlib import Path
from typing import Any

from harness.record.protocol_journal import JOURNAL, ProxyJournal, RequestRecord, RuleEvent

ZERO_NS = 7_000_000_000
"""The start of the run on the clock of the journal."""


def at(time_s: float) -> int:
    """Return a time of the run on the clock of the journal."""
    return ZERO_NS + round(time_s * 1e9)


def end_txn(number: int, at_s: float, *, transactional_id: str = "shop-2", **facts: object) -> RequestRecord:
    """Return an EndTxn request that asks for an abort."""
    defaults: dict[str, Any] = {"api": "EndTxn", "version": 1, "asked": "abort", "connection": 1}
    return RequestRecord(
        number=number,
        link="client:w0->2",
        correlation=40 + number,
        client_id="rdkafka",
        bytes=50,
        seen_ns=at(at_s),
        transactional_ids=(transactional_id,),
        **defaults | facts,
    )


def write_held(journal: ProxyJournal, request: RequestRecord, delivered_s: float, answered_s: float) -> None:
    """Write the lines of a request that is held, delivered after its client has gone, and answered."""

    def note(event: str, at_ns: int, reason: str = "") -> None:
        journal.write_event(RuleEvent(request.rule or "", event, at_ns, request.number, "", reason), request)

    request.rule = "late-end-txn-3"
    note("held", request.seen_ns)
    note("released", at(delivered_s), "when AddOffsetsToTxn request 16 was seen")
    request.delivered_ns, request.answered_ns = at(delivered_s), at(answered_s)
    journal.write_request(request)
    note("answered", at(answered_s))


def write_held_requests(
    folder: Path, *transactional_ids: str, sent_s: float = 3.214, first: int = 1, **facts: object
) -> None:
    """Write a journal in which an EndTxn of each id is held, delivered 1.2 s later, and answered 6 ms after that.

    If the journal exists, the requests are added to it. They are numbered from `first`. `facts` replace those of the
    request.
    """
    journal = ProxyJournal(folder / JOURNAL)
    for number, transactional_id in enumerate(transactional_ids, first):
        request = end_txn(number, sent_s, transactional_id=transactional_id, **facts)
        write_held(journal, request, sent_s + 1.2, sent_s + 1.206)
    journal.flush()
    plan = folder / "run.toml"
    before = plan.read_text() if plan.exists() else "[run]\n"
    if "monotonic_ns_at_zero" not in before:
        plan.write_text(before.replace("[run]\n", f"[run]\nmonotonic_ns_at_zero = {ZERO_NS}\n"))
