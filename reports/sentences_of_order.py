"""The sentences of what readers, senders and groups did out of their order."""

from collections.abc import Callable

from reports.example import Example, named_record, place
from reports.words import listed, printable


def _two(e: Example) -> tuple[str, str]:
    """The first two records in words."""
    named = [named_record(part.body) for part in e.records[:2]]
    return (*named, "a record", "another")[:2]  # type: ignore[return-value]


def _read_above_lso(e: Example) -> str:
    read, still_open = _two(e)
    return f"{e.reader} read {read}, above {still_open}, which is open to this day"


def _vanished(e: Example) -> str:
    return f"{e.reader} read {e.record}, and the final reader came past it and was not given it"


def _inconsistent(e: Example) -> str:
    at = e.body.get("place")
    where = place(at) if isinstance(at, dict) else place(e.first_record())
    values = [printable(part.body["value"], 60) for part in e.records if part.body.get("value") is not None]
    return f"{where} was seen with different values" + (f": {listed(values)}" if values else "")


def _precommitted(e: Example) -> str:
    return f"{e.operation} was given {e.record}, which it had itself sent"


def _skip(e: Example) -> str:
    before, here = _two(e)
    count = e.rest.get("skipped")
    over = "" if count is None else f" and skipped {printable(count)} between them"
    return f"{e.reader} went from {before} to {here}{over}"


def _back(e: Example) -> str:
    before, here = _two(e)
    return f"{e.reader} was given {before}, and then {here}"


def _sent_back(e: Example) -> str:
    before, here = _two(e)
    return f"{e.operation} sent {before} first, and what its process sent after it stands at {here}"


def _stale(e: Example) -> str:
    committed = printable(e.rest.get("committed"))
    return f"{e.reader} began at {e.input}, though {e.operation} had committed up to {committed}"


def _overlapping(e: Example) -> str:
    count = e.rest.get("shared")
    shared = "" if count is None else f" ({printable(count)} offsets in both ranges)"
    names = [printable(part.body.get("name", part.body.get("op")), 60) for part in e.operations[:2]]
    return f"{listed(names) if names else 'two operations'} both committed {e.input}{shared}"


def _premature(e: Example) -> str:
    count = e.rest.get("inputs_not_given")
    most = "inputs" if count is None else f"{printable(count)} inputs"
    return f"{e.operation} committed an offset beyond {most} that its process had never been given"


def _mismatch(e: Example) -> str:
    rest = e.rest
    state = rest.get("state")
    said = "has no sum" if state is None else f"has the last sum {printable(state)}"
    inputs = printable(rest.get("inputs"))
    return (
        f"key {printable(rest.get('key'), 60)} of {printable(rest.get('output_topic'), 60)} {said}, and its "
        f"{inputs} inputs add up to {printable(rest.get('due'))}"
    )


def _reversed(e: Example) -> str:
    before, here = _two(e)
    return (
        f"of key {printable(e.rest.get('key'), 60)}, {here} stands above {before}, "
        f"and comes of the earlier {e.input}"
    )


SENTENCES: dict[str, Callable[[Example], str]] = {
    "read-above-lso": _read_above_lso,
    "vanished": _vanished,
    "inconsistent-offsets": _inconsistent,
    "precommitted-read": _precommitted,
    "poll-skip": _skip,
    "int-poll-skip": _skip,
    "nonmonotonic-poll": _back,
    "int-nonmonotonic-poll": _back,
    "nonmonotonic-send": _sent_back,
    "int-nonmonotonic-send": _sent_back,
    "stale-offset": _stale,
    "overlapping-commit": _overlapping,
    "premature-offset": _premature,
    "aggregate-mismatch": _mismatch,
    "order-violation": _reversed,
}
