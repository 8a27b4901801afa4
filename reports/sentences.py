"""A finding as a sentence: "T7 read x=1 at offset 0, which T3 wrote and then aborted".

One function for each anomaly, of what its example holds. What an example lacks is left out or
called unknown, never invented, and an anomaly that is not known here gets a plain sentence.
"""

from collections.abc import Callable, Mapping
from typing import Any

from reports.example import Body, Example, named_operation, named_record, place
from reports.words import listed, printable

_FATES = {"commit": "committed", "abort": "aborted", "open": "still open", "plain": "not transactional"}


def sentence(anomaly: str, example: Mapping[str, Any]) -> str:
    """The example of an anomaly in one sentence, without a full stop; safe to show."""
    found = Example(example)
    known = _SENTENCES.get(anomaly)
    return known(found) if known else _generic(anomaly, found)


def fate(record: Body) -> str:
    """What a record's marker says, as far as it is known."""
    if record.get("fate") is None:
        return "of unknown fate"
    said = _FATES.get(str(record["fate"]), printable(record["fate"], 40))
    marker = record.get("marker_offset")
    return said if marker is None else f"{said} by the marker at offset {printable(marker)}"


def _generic(anomaly: str, e: Example) -> str:
    parts = [named_record(part.body) for part in e.records]
    parts += [named_operation(part.body) for part in e.operations]
    parts += [f"input {place(part.body)}" for part in e.inputs]
    parts += [f"{printable(name, 40)} {printable(value, 80)}" for name, value in e.rest.items()]
    return (
        f"{printable(anomaly, 60)}: {listed(parts, 6)}"
        if parts
        else f"{printable(anomaly, 60)}, no details given"
    )


def _lost_write(e: Example) -> str:
    found = e.rest.get("found")
    instead = f"; {printable(found, 60)} stands there instead" if found is not None else ""
    return f"{e.operation} was told that it had written {e.record}, and it is not there{instead}"


def _duplicate(e: Example) -> str:
    places = e.rest.get("offsets")
    where = [place(part.body) for part in e.records] or (
        [f"offset {printable(offset, 30)}" for offset in places] if isinstance(places, list) else []
    )
    value = e.first_record().get("value", e.rest.get("value"))
    what = "a value" if value is None else printable(value, 60)
    stands = listed(where) if where else "more than one place"
    return f"{e.operation} sent {what} once, and it stands at {stands}"


def _aborted_read(e: Example) -> str:
    return f"{e.reader} read {e.record}, which {e.operation} wrote and then aborted"


def _dirty_read(e: Example) -> str:
    record = e.first_record()
    if record.get("fate") == "commit":
        return f"{e.reader} read {e.record} before it was committed (it was {fate(record)})"
    return f"{e.reader} read {e.record}, which is {fate(record)}"


def _torn(e: Example) -> str:
    fates = [f"{place(part.body)} is {fate(part.body)}" for part in e.records]
    said = listed(fates) if fates else "its records do not share one fate"
    return f"{e.operation} was one transaction, and {said}"


def _lost_commit(e: Example) -> str:
    record = e.first_record()
    if not record:
        return f"{e.operation} was told that its commit had succeeded, and what it wrote did not take effect"
    ends = fate(record) if record.get("fate") is not None else "gone"
    return f"{e.operation} was told that its commit had succeeded, and {e.record} is {ends}"


def _ghost_commit(e: Example) -> str:
    operation = e.first_operation()
    if operation.get("asked") == "abort":
        why = "its worker had asked for an abort"
    elif "commit_ns" in operation and operation["commit_ns"] is None:
        why = "its worker never asked for the commit"
    else:
        error = operation.get("error")
        why = "its worker was told that it had failed" + (f" ({printable(error, 80)})" if error else "")
    return f"{e.record} of {e.operation} is {fate(e.first_record())}, though {why}"


def _mismatch(e: Example) -> str:
    parts = [f"{named_record(part.body)} is {fate(part.body)}" for part in e.records]
    inputs = [f"input {place(part.body)}" for part in e.inputs]
    said = f": {listed(parts)}" if parts else f" over {listed(inputs)}" if inputs else ""
    return f"in {e.operation} the outputs and the committed offsets disagree{said}"


def _reprocessed(e: Example) -> str:
    times = "twice" if len(e.records) <= 2 else f"{len(e.records)} times"
    effects = [
        f"{place(part.body)}" + (f" by {named_operation(part.operation)}" if part.operation else "")
        for part in e.records
    ]
    if not effects:
        effects = [f"in {named_operation(part.body)}" for part in e.operations]
    return f"{e.input} took effect {times}" + (f": {listed(effects)}" if effects else "")


def _lost_input(e: Example) -> str:
    slot = e.rest.get("slot")
    what = "an output that it must lead to" if slot is None else f"its output {printable(slot, 60)}"
    group = e.rest.get("group")
    who = "the group" if group is None else f"group {printable(group, 60)}"
    return f"{who} went past {e.input}, and {what} is nowhere"


def _regression(e: Example) -> str:
    rest, at = e.rest, e.inputs[0].body if e.inputs else e.rest
    before = next((rest[key] for key in ("before", "from", "previous", "was") if key in rest), None)
    after = next(
        (rest[key] for key in ("after", "to", "committed", "became") if key in rest), at.get("offset")
    )
    where = place({key: value for key, value in at.items() if key != "offset"})
    who = "the group" if rest.get("group") is None else f"group {printable(rest['group'], 60)}"
    by = f", by {named_operation(e.operations[-1].body)}" if e.operations else ""
    change = f"from {printable(before)} to {printable(after)}"
    return f"the offset that {who} had committed for {where} went back {change}{by}"


def _phantom(e: Example) -> str:
    if e.inputs:
        return f"{e.record} is visible, and names {e.input}, which is not a visible input"
    return f"{e.record} is visible, and nobody had announced to send it"


def _corrupt(e: Example) -> str:
    return f"{e.record} does not hold what {e.operation} sent"


def _unseen(e: Example) -> str:
    return f"{e.record} was acknowledged to {e.operation}, and no reader that came past it was given it"


def _zombie(e: Example) -> str:
    record = e.first_record()
    epoch, newer = record.get("epoch"), e.rest.get("newer_epoch", e.rest.get("higher_epoch"))
    if newer is None and len(e.records) > 1:
        newer = e.records[1].body.get("epoch")
    if epoch is not None and newer is not None:
        above = f"above epoch {printable(newer)} of the same producer"
        return f"{e.record} of epoch {printable(epoch)} was committed {above}"
    return f"{e.operation} wrote {e.record}, and it was committed after another had taken over its id"


def _hanging(e: Example) -> str:
    record = e.first_record()
    who = f"producer {printable(record.get('producer_id'))}, epoch {printable(record.get('epoch'))}"
    return f"{e.record}, written by {who}, is still open, and readers of its partition stop before it"


_SENTENCES: dict[str, Callable[[Example], str]] = {
    "lost-write": _lost_write,
    "duplicate": _duplicate,
    "aborted-read": _aborted_read,
    "dirty-read": _dirty_read,
    "torn-transaction": _torn,
    "lost-commit": _lost_commit,
    "ghost-commit": _ghost_commit,
    "offset-output-mismatch": _mismatch,
    "reprocessed-input": _reprocessed,
    "lost-input": _lost_input,
    "group-offset-regression": _regression,
    "phantom": _phantom,
    "corrupt": _corrupt,
    "unseen": _unseen,
    "zombie-write": _zombie,
    "hanging-transaction": _hanging,
}
