"""Histories written in a line for each operation.

`0 ok x1@0 ?y2@1,3@2` is an operation of process 0 that sent value 1 to key x and polled two records of y. The
acknowledgement of the send has offset 0. `0 ( x1` is an invocation alone, `0 ok) x1@0` a completion alone. `x1` is a
send without an offset, `?` a poll without records, `0 ok assign x y` an assignment of the keys x and y.
"""

from typing import Any

from tests.reference.forms import f_of, mops_as_invoked, numbered
from tests.reference.history import Event


def _record(text: str) -> list[Any]:
    value, _, offset = text.partition("@")
    return [int(offset) if offset else None, int(value)]


def _mop(text: str) -> list[Any]:
    if text.startswith("?"):
        return ["poll", {text[1]: [_record(one) for one in text[2:].split(",")]}] if text[1:] else ["poll"]
    offset, value = _record(text[1:])
    return ["send", text[0], value if offset is None else [offset, value]]


def history(*lines: str, **more: Any) -> list[Event]:
    events: list[Event] = []
    for line in lines:
        process, what, *rest = line.split()
        if rest and rest[0] in ("assign", "subscribe"):
            f, invoked, completed = rest[0], list[Any](rest[1:]), list[Any](rest[1:])
        else:
            completed = [_mop(one) for one in rest]
            f, invoked = f_of(completed), mops_as_invoked(completed)
        head = {"process": int(process), "f": f}
        if not what.endswith(")"):
            events.append({**head, "type": "invoke", "value": invoked})
        if what != "(":
            events.append({**head, "type": what.rstrip(")"), "value": completed, **more})
    return numbered(events)
