"""A history as JSON Lines, and as Jepsen's EDN."""

import json
from collections.abc import Iterable
from typing import Any

from tests.reference.history import Event

Mop = list[Any]
KEYWORDS = ("type", "f")


def mops_as_invoked(mops: Iterable[Mop]) -> list[Mop]:
    """The micro-operations of an invocation: no offset is known yet, and no record was received."""
    asked: list[Mop] = []
    for mop in mops:
        if mop[0] == "poll":
            asked.append(["poll"])
        else:
            asked.append([*mop[:2], mop[2][1] if isinstance(mop[2], list) else mop[2]])
    return asked


def f_of(mops: Iterable[Mop]) -> str:
    """`send` or `poll` when there is nothing else in it."""
    acts = {mop[0] for mop in mops}
    return acts.pop() if len(acts) == 1 else "txn"


def numbered(events: Iterable[Event]) -> list[Event]:
    """The events with their index, and a time that grows with the index."""
    return [{"index": at, "time": at * 1_000_000, **event} for at, event in enumerate(events)]


def to_jsonl(events: Iterable[Event]) -> str:
    """One event a line."""
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)


def to_edn(events: Iterable[Event]) -> str:
    """One event a line, as Jepsen writes them: names of its own are keywords."""
    return "".join(_map((f":{name}", _field(name, some)) for name, some in e.items()) + "\n" for e in events)


def _map(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{key} {value}" for key, value in pairs) + "}"


def _vector(parts: Iterable[str]) -> str:
    return "[" + " ".join(parts) + "]"


def _field(name: str, value: Any) -> str:
    if name in KEYWORDS or (name == "process" and isinstance(value, str)):
        return f":{value}"
    if name == "value" and isinstance(value, list):
        return _vector(_mop(part) for part in value)
    if name == "rebalance-log":
        return _vector(_map([(":keys", _edn(entry["keys"]))]) for entry in value)
    return _edn(value)


def _mop(mop: Any) -> str:
    if not isinstance(mop, list):
        return _edn(mop)
    return _vector([f":{mop[0]}", *(_edn(part) for part in mop[1:])])


def _edn(value: Any) -> str:
    if isinstance(value, list):
        return _vector(_edn(part) for part in value)
    if isinstance(value, dict):
        return _map((_edn(key), _edn(part)) for key, part in value.items())
    return "nil" if value is None else json.dumps(value, ensure_ascii=False)
