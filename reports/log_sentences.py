"""Findings about the brokers' log, and warnings, as sentences."""

from collections.abc import Callable, Mapping
from typing import Any

from reports.example import Body, Example, named_operation, place
from reports.words import listed, printable


def _epoch_regression(e: Example) -> str:
    before = e.body.get("record_before")
    below = f" at {place(before)}" if isinstance(before, Mapping) else ""
    what = "the marker" if e.rest.get("marker") is not None else "the record"
    at = place(_body(e, "record"))
    epoch, higher = printable(e.rest.get("epoch")), printable(e.rest.get("epoch_before"))
    return f"{what} at {at} is {_producer(e)}, epoch {epoch}, which had epoch {higher}{below} before"


def _sequence_violation(e: Example) -> str:
    found, due = printable(e.rest.get("sequence")), printable(e.rest.get("sequence_due"))
    at = place(_body(e, "record"))
    return f"the batch at {at}, {_producer(e)}, begins with sequence {found}, where {due} was due"


def _state_violation(e: Example) -> str:
    state, before = printable(e.rest.get("state"), 40), printable(e.rest.get("state_before"), 40)
    at = place(_body(e, "record"))
    return f"{_id(e)} went from {before} to {state} ({at}), which may not follow it"


def _stuck_completion(e: Example) -> str:
    at = place(_body(e, "record"))
    waits = _partitions(e.body.get("partitions"))
    return f"{_id(e)} was still {printable(e.rest.get('state'), 40)} ({at}) at the end" + (
        f", with {waits} to be marked" if waits else ""
    )


def _unmarked_partition(e: Example) -> str:
    markers, due = printable(e.rest.get("markers")), printable(e.rest.get("completions"))
    last = e.body.get("last_completion")
    said = f"; the last one says {printable(last.get('state'), 40)}" if isinstance(last, Mapping) else ""
    where = place({key: value for key, value in _body(e, "record").items() if key != "offset"})
    return (
        f"{where} has {markers} markers of {_id(e)}, and {due} of its transactions there are complete{said}"
    )


def _replica_divergence(e: Example) -> str:
    held = e.body.get("replicas")
    bodies = [one for one in held if isinstance(one, Mapping)] if isinstance(held, list) else []
    parts = [
        f"broker {printable(one.get('broker'))} has checksum {printable(one.get('crc'))}"
        f" up to offset {printable(one.get('last_offset'))}"
        for one in bodies
    ]
    lacking = e.body.get("lacking")
    parts += [f"broker {printable(one)} has nothing" for one in lacking] if isinstance(lacking, list) else []
    at = place(_body(e, "record"))
    return f"at {at} the replicas differ" + (f": {listed(parts)}" if parts else "")


def _contended_id(e: Example) -> str:
    other = e.body.get("other_init")
    who = named_operation(other) if isinstance(other, Mapping) else "another process"
    return f"{e.operation} took {_id(e)} back after {who} had taken it"


def _undue_fencing(e: Example) -> str:
    error = e.first_operation().get("error")
    said = f" ({printable(error, 80)})" if error else ""
    return f"{e.operation} was fenced{said}, though nobody had taken {_id(e)} and no time-out had passed"


def _stalled(e: Example) -> str:
    who = "the group" if e.rest.get("group") is None else f"group {printable(e.rest['group'], 60)}"
    still, bound = printable(e.rest.get("still_s")), printable(e.rest.get("bound_s"))
    ended = "until" if e.rest.get("committed") is True else "and not by the time of"
    return (
        f"{who} committed nothing for {still} s (the bound is {bound} s), "
        f"{ended} {e.operation}, with {e.input} before it"
    )


def _producer(e: Example) -> str:
    return f"of producer {printable(e.rest.get('producer_id'))}"


def _id(e: Example) -> str:
    own = e.rest.get("transactional_id")
    return "a transactional id" if own is None else printable(own, 60)


def _body(e: Example, name: str) -> Body:
    body = e.body.get(name)
    return body if isinstance(body, Mapping) else {}


def _partitions(value: Any) -> str:
    there = [place(one) for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
    return listed(there) if there else ""


LOG_SENTENCES: dict[str, Callable[[Example], str]] = {
    "epoch-regression": _epoch_regression,
    "sequence-violation": _sequence_violation,
    "transaction-state-violation": _state_violation,
    "stuck-completion": _stuck_completion,
    "unmarked-partition": _unmarked_partition,
    "replica-divergence": _replica_divergence,
    "contended-id": _contended_id,
    "undue-fencing": _undue_fencing,
    "stalled": _stalled,
}
