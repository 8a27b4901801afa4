"""A finding as a sentence: "T7 read x=1 at offset 0, which T3 wrote and then aborted".

One function for each anomaly, of what its example holds. What an example lacks is left out or
called unknown, never invented, and an anomaly that is not known here gets a plain sentence.
"""

from collections.abc import Callable, Mapping
from typing import Any

from harness.verdict import Unsettled
from reports import sentences_of_order
from reports.example import Body, Example, named_offset, named_operation, named_record, place
from reports.log_sentences import LOG_SENTENCES
from reports.words import listed, printable, several

_FATES = {"commit": "committed", "abort": "aborted", "open": "still open", "plain": "not transactional"}


def sentence(anomaly: str, example: Mapping[str, Any]) -> str:
    """The example of an anomaly in one sentence, without a full stop; safe to show."""
    found = Example(example)
    known = _SENTENCES.get(anomaly)
    return known(found) if known else _generic(anomaly, found)


def unsettled(found: Unsettled) -> str:
    """How many operations nobody can say of whether they took effect, and which."""
    named = listed(named_operation(example) for example in found.examples[:3])
    return (
        f"{several(found.count, 'operation')} whose client was told nothing, and no marker and no read tells "
        f"whether {'it' if found.count == 1 else 'they'} took effect; the first: {named}"
    )


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
    holds = e.rest.get("log_holds")
    if holds is not None and holds != "it":
        instead = f"the log holds {printable(holds, 60)} there"
    elif e.rest.get("finally_read") is False:
        instead = "the final reader came past it and was not given it"
    else:
        instead = "it is not there"
    return f"{e.operation} was told that it had written {e.record}, and {instead}"


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
    early = e.rest.get("early_ms")
    if early is not None:
        return f"{e.reader} read {e.record} {printable(early, 30)} ms before its marker was written"
    if e.first_record().get("fate") == "commit":
        return f"{e.reader} read {e.record} before it was committed"
    return f"{e.reader} read {e.record}, which is {fate(e.first_record())}"


def _torn(e: Example) -> str:
    fates = [
        f"{place(part.body)} is {fate(part.body)}" for part in e.records if part.body.get("fate") is not None
    ]
    told = e.rest.get("fates")
    if not fates and isinstance(told, list):
        fates = [f"some of its records are {_FATES.get(str(one), printable(one, 40))}" for one in told]
    said = listed(fates) if fates else "its records do not share one fate"
    return f"{e.operation} was one transaction, and {said}"


def _lost_commit(e: Example) -> str:
    lost = []
    for part in e.records:
        ends = fate(part.body) if part.body.get("fate") is not None else "gone"
        ends = {"aborted_record": "aborted", "gone_record": "gone"}.get(part.label, ends)
        lost.append(f"{named_record(part.body)} is {ends}")
    for part in e.offsets:
        ends = "aborted" if part.label.startswith("aborted") else "gone"
        lost.append(f"its offset of {named_offset(part.body)} is {ends}")
    said = listed(lost, 3) if lost else "what it wrote did not take effect"
    return f"{e.operation} was told that its commit had succeeded, and {said}"


def _ghost_commit(e: Example) -> str:
    operation, told = e.first_operation(), printable(e.rest.get("told"), 80)
    if operation.get("asked") == "abort":
        why = "its worker had asked for an abort"
    elif told.startswith("nothing") or ("commit_ns" in operation and operation["commit_ns"] is None):
        why = "its worker never asked for the commit"
    else:
        error = operation.get("error")
        why = "its worker was told that it had not happened" + (f" ({printable(error, 80)})" if error else "")
    if e.records or not e.offsets:
        return f"{e.record} of {e.operation} is committed, though {why}"
    return f"the offset {named_offset(e.offsets[0].body)} of {e.operation} is committed, though {why}"


def _mismatch(e: Example) -> str:
    why = e.rest.get("why")
    if why is not None and e.inputs:
        named = f" ({named_record(e.records[0].body)})" if e.records else ""
        return f"in {e.operation} {printable(why, 100)}{named}: {place(e.inputs[0].body)}"
    parts = [
        f"{place(part.body)} is {fate(part.body)}" for part in e.records if part.body.get("fate") is not None
    ]
    parts += [
        f"its offset of {named_offset(part.body)} is {fate(part.body)}"
        for part in e.offsets
        if part.body.get("fate") is not None
    ]
    if not parts:
        parts = [f"it committed {named_offset(part.body)}" for part in e.offsets if part.label == "offset"]
    return f"in {e.operation} the outputs and the committed offsets disagree" + (
        f": {listed(parts)}" if parts else ""
    )


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
    slot, topic = e.rest.get("slot"), e.rest.get("output_topic")
    what = "an output that it must lead to" if slot is None else f"its output {printable(slot, 60)}"
    where = "nowhere" if topic is None else f"nowhere in {printable(topic, 60)}"
    group = e.rest.get("group")
    who = "the group" if group is None else f"group {printable(group, 60)}"
    tried = [named_operation(part.body) for part in e.operations if part.label != "passed_by"]
    passed = e.body.get("passed_by")
    by = f" by {named_operation(passed)}" if isinstance(passed, Mapping) else ""
    return f"{who} went past {e.input}{by}, and {what} is {where}" + (
        f"; {listed(tried)} had tried" if tried else ""
    )


def _regression(e: Example) -> str:
    rest = e.rest
    at = e.inputs[0].body if e.inputs else rest
    where = place({key: value for key, value in at.items() if key != "offset"})
    who = "the group" if rest.get("group") is None else f"group {printable(rest['group'], 60)}"
    by = f", by {e.operation}" if e.operations else ""
    change = f"from {printable(rest.get('committed_before'))} to {printable(rest.get('committed'))}"
    return f"the offset that {who} had committed for {where} went back {change}{by}"


def _phantom(e: Example) -> str:
    if e.inputs:
        now = e.inputs[0].body.get("fate")
        what = "not a visible input" if now is None else _FATES.get(str(now), printable(now, 40))
        return f"{e.record} is visible, and names {e.input}, which is {what}"
    return f"{e.record} is visible, and nobody had announced to send it"


def _corrupt(e: Example) -> str:
    if e.inputs:
        return f"{e.record} is not what {e.input} must lead to"
    return f"{e.record} is not what {e.operation} sent"


def _unseen(e: Example) -> str:
    return f"{e.record} was acknowledged to {e.operation}, and no reader that came past it was given it"


def _zombie(e: Example) -> str:
    epoch, higher = e.rest.get("epoch", e.first_record().get("epoch")), e.rest.get("epoch_before")
    if epoch is not None and higher is not None:
        above = f"above epoch {printable(higher)} of the same producer"
        return f"{e.record} of epoch {printable(epoch)} was committed {above}"
    other = e.body.get("other_init")
    who = named_operation(other) if isinstance(other, Mapping) else "another process"
    return f"{e.operation} was committed after {who} had taken over its transactional id"


def _hanging(e: Example) -> str:
    record, rest = e.first_record(), e.rest
    producer = printable(rest.get("producer_id", record.get("producer_id")))
    who = f"producer {producer}, epoch {printable(rest.get('epoch', record.get('epoch')))}"
    if rest.get("transactional_id") is not None:
        who = f"{printable(rest['transactional_id'], 60)} ({who})"
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
    **LOG_SENTENCES,
    **sentences_of_order.SENTENCES,
}
