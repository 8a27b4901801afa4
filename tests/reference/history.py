"""A history as the definition sees it: operations, who wrote what, and the version order of each key."""

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
Value = Hashable
Name = tuple[str, Value]
"""A key and a value: a value is unique in its key only."""


class Malformed(ValueError):
    """The events of a process do not alternate between an invocation and its completion, or the two disagree."""


@dataclass(frozen=True)
class Record:
    """A record that was sent or polled. `offset` is None if it is not known."""

    key: str
    value: Value
    offset: int | None

    @property
    def name(self) -> Name:
        return self.key, self.value


@dataclass(eq=False)
class Op:
    """An operation of a numbered process, with the values of its completion."""

    index: int  # of its completion; of its invocation if it never completed
    process: int
    f: str
    type: str  # ok, fail, info; open: it never completed
    invoked: int  # index of its invocation among the events
    completed: int  # index of its completion
    sends: list[Record] = field(default_factory=list)
    reads: list[Record] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)  # of assign and subscribe
    rebalanced: set[str] = field(default_factory=set)
    isolation: str = "read_committed"

    @property
    def promised(self) -> bool:
        """It was promised committed records alone."""
        return self.isolation != "read_uncommitted"


def _key(key: Any) -> str:
    """A key as text. In JSON, the keys of a poll are strings even if its sends have numbers."""
    return key if isinstance(key, str) else json.dumps(key)


def _value(value: Any) -> Value:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return "json", json.dumps(value, sort_keys=True)


def _offset(offset: int | None) -> int | None:
    return offset if offset is not None and offset >= 0 else None  # 6: a negative one is unknown


def _sends(event: Event) -> Iterable[Record]:
    if event["f"] not in ("txn", "send"):  # 1.2
        return
    for mop in event.get("value") or ():
        if mop[0] == "send":
            offset, value = mop[2] if isinstance(mop[2], list) and len(mop[2]) == 2 else (None, mop[2])
            yield Record(_key(mop[1]), _value(value), _offset(offset))


def _reads(event: Event) -> Iterable[Record]:
    if event["f"] not in ("txn", "poll"):  # 1.3
        return
    for mop in event.get("value") or ():
        if mop[0] == "poll" and len(mop) > 1:
            for key, records in (mop[1] or {}).items():
                for offset, value in records:
                    yield Record(_key(key), _value(value), _offset(offset))


def _op(invocation: Event, event: Event, type_: str, invoked: int, completed: int) -> Op:
    if event["f"] != invocation["f"]:
        raise Malformed(
            f"line {completed + 1}: `{event['f']}` completes what was invoked as `{invocation['f']}`"
        )
    op = Op(event.get("index", completed), event["process"], event["f"], type_, invoked, completed)
    op.sends = list(_sends(event))
    asked = list(_sends(invocation))
    if type_ in ("info", "fail") and not op.sends:
        op.sends = asked  # Choice: what it does not say, it did as it was asked
    elif asked and [sent.name for sent in asked] != [sent.name for sent in op.sends]:
        raise Malformed(f"line {completed + 1}: other sends than its invocation")
    op.reads = [] if type_ == "open" else list(_reads(event))
    if op.f in ("assign", "subscribe"):
        op.keys = {_key(key) for key in event.get("value") or ()}
    for entry in event.get("rebalance-log") or ():
        keys = entry.get("keys") or () if isinstance(entry, dict) else [entry]
        op.rebalanced |= {_key(key) for key in keys}
    op.isolation = event.get("isolation") or op.isolation
    return op


def _numbered(event: Event) -> bool:
    return isinstance(event.get("process"), int) and not isinstance(event["process"], bool)


def operations(events: list[Event]) -> list[Op]:
    """In the order of their completions; those that never completed come last.

    Raises:
        Malformed: two open invocations of a process, a completion without one, or one that names another
            kind of operation or other sends than its invocation.
    """
    ops, waiting = [], dict[int, tuple[int, Event]]()
    for at, event in enumerate(events):
        if not _numbered(event):  # 1.1
            continue
        process = event["process"]
        if event["type"] == "invoke":
            if process in waiting:
                raise Malformed(f"line {at + 1}: process {process} has an open invocation already")
            waiting[process] = at, event
        elif process not in waiting:
            raise Malformed(f"line {at + 1}: process {process} has no open invocation")
        else:
            invoked, invocation = waiting.pop(process)
            ops.append(_op(invocation, event, event["type"], invoked, at))
    for at, event in waiting.values():
        ops.append(_op(event, event, "open", at, at))
    return ops


class History:
    """The parts of one history that all definitions need."""

    def __init__(self, events: list[Event]) -> None:
        self.ops = operations(events)
        self.done = [op for op in self.ops if op.type != "open"]  # 1.5: only completions count
        self.polled = {r.name for op in self.done for r in op.reads}
        self.ok_read = {r.name for op in self.done if op.type == "ok" for r in op.reads}
        promised = [op for op in self.done if op.type == "ok" and op.promised]
        # Choice: what is given to one who asked for uncommitted records proves nothing.
        self.proven = {r.name for op in promised for r in op.reads}
        self.writer: dict[Name, Op] = {}
        # 6: an operation that never completed counts as `info`, as the writer of what its invocation names.
        # Choice: it is a vertex, or nobody would see that it was read before it was invoked; and in no order
        # check, for 1.5 speaks of completions.
        for op in [*(op for op in self.ops if op.type == "open"), *self.done]:
            for sent in op.sends:
                self.writer[sent.name] = op  # 1.7: the last one, and a completion before any invocation
        self.committed = {op for op in self.ops if self._must_have_committed(op)}
        self.order = Order(self)

    def _must_have_committed(self, op: Op) -> bool:
        if op.type in ("info", "open"):
            return any(sent.name in self.proven for sent in op.sends)
        return op.type == "ok"  # 1.6

    def subscribes(self) -> bool:
        """Choice: an invocation is enough, for it may well have taken effect."""
        return any(op.f == "subscribe" for op in self.ops)


class Order:
    """2. The version order: offsets to values, and back."""

    def __init__(self, h: History) -> None:
        self.offsets: dict[Name, set[int]] = defaultdict(set)
        self.values: dict[tuple[str, int], set[Value]] = defaultdict(set)
        # 2.1: polls of all completions, info and fail too. Choice: not of a read-uncommitted reader, because its
        # records may have been aborted, and read-committed readers skip aborted records.
        records = [r for op in h.done if op.promised for r in op.reads]
        records += [r for op in h.ops if op in h.committed for r in op.sends]
        for record in records:
            if record.offset is not None:
                self.offsets[record.name].add(record.offset)
                self.values[record.key, record.offset].add(record.value)
        self.versions: dict[str, list[int]] = defaultdict(list)
        for key, offset in sorted(self.values):
            self.versions[key].append(offset)
        self._rank = {
            (key, offset): rank
            for key, offsets in self.versions.items()
            for rank, offset in enumerate(offsets)  # 2.2: gaps vanish
        }

    def ranks(self, name: Name) -> list[int]:
        """Every index of a value, in order; none if its offset is not known."""
        return sorted(self._rank[name[0], offset] for offset in self.offsets.get(name, ()))

    def index(self, name: Name) -> int | None:
        """The index of a value; None where nothing is to be derived from it."""
        offsets = self.offsets.get(name, set())
        if len(offsets) != 1:  # 2.2: not in the order; 6: one value at two offsets
            return None
        (offset,) = offsets
        if len(self.values[name[0], offset]) > 1:  # 6: two values at one offset
            return None
        return self._rank[name[0], offset]

    def version(self, key: str, index: int) -> Name | None:
        """The value that has this index; None where there is none, or none to derive anything from."""
        if not 0 <= index < len(self.versions.get(key, ())):
            return None
        values = self.values[key, self.versions[key][index]]
        name = key, next(iter(values))
        return name if self.index(name) == index else None
