"""The anomalies of single records and of their fates."""

from collections import Counter
from collections.abc import Hashable

from tests.reference.history import History, Name, Op

Found = set[tuple[Hashable, ...]]
KNOWN = ("txn", "send", "poll", "assign", "subscribe", "crash", "debug-topic-partitions")


def inconsistent_offsets(h: History) -> Found:
    """(key, offset)."""
    return {at for at, values in h.order.values.items() if len(values) > 1}  # 2.3


def duplicate(h: History) -> Found:
    """(key, value)."""
    return {name for name, offsets in h.order.offsets.items() if len(offsets) > 1}  # 2.3


def aborted_read(h: History) -> Found:
    """(operation, key, value)."""
    # 4.1. Choice: "wrote it" is said of the value's one writer (1.7). Choice: a reader that says
    # `read_uncommitted` was promised nothing.
    return {
        (op.index, *read.name)
        for op in h.done
        if op.type == "ok" and op.promised
        for read in op.reads
        if _type_of_writer(h, read.name) == "fail"
    }


def _type_of_writer(h: History, name: Name) -> str:
    return h.writer[name].type if name in h.writer else ""


def precommitted_read(h: History) -> Found:
    """(operation, key, value)."""
    # 4.2. Choice: one that asked for uncommitted records may well be given its own.
    return {
        (op.index, *name)
        for op in h.done
        if op.promised
        for name in {sent.name for sent in op.sends} & {read.name for read in op.reads}
    }


def bounds(h: History) -> dict[str, int]:
    """By key, the highest index that was ok-read; a duplicated value has its first one here."""
    bound: dict[str, int] = {}
    for name in h.ok_read:
        ranks = h.order.ranks(name)
        if ranks:
            bound[name[0]] = max(bound.get(name[0], -1), ranks[0])  # 4.3, 6
    return bound


def due_and_unread(h: History) -> set[Name]:
    """Values at or below the bound of their key that no ok operation polled, from any writer."""
    bound = bounds(h)
    return {
        name
        for name in h.order.offsets
        if name not in h.ok_read and h.order.ranks(name)[-1] <= bound.get(name[0], -1)  # 4.3, 6: its last
    }


def numbers(h: History) -> dict[str, int]:
    """How many operations there are of each kind, and records: pairs of key and value."""
    kinds = Counter(op.type for op in h.ops)
    ends = Counter(op.type for op in h.ops if op.f in ("txn", "send", "poll"))
    sent = {sent.name for op in h.ops for sent in op.sends}
    return {
        "ops": len(h.ops),
        **{kind: kinds[kind] for kind in ("ok", "fail", "info", "open")},
        "passed_over": sum(op.f not in KNOWN for op in h.ops),
        "committed": ends["ok"],
        "aborted": ends["fail"],
        "outputs": len(sent | h.polled),
    }


def unsettled(h: History) -> Found:
    """(operation,), no anomaly: it wrote a record, and it is not known whether it committed."""
    doubtful = {op for op in h.writer.values() if op.type in ("info", "open")}
    return {(op.index,) for op in doubtful - set(h.committed)}


def lost_write(h: History) -> Found:
    """(key, value)."""
    return {name for name in due_and_unread(h) if h.writer.get(name) in h.committed}  # 4.3


def torn_transaction(h: History) -> Found:
    """(operation,)."""
    # 6. Choice: "finally read" is ok-read, and the reader's end is the bound of 4.3. Choice: an operation
    # `send` may be a transaction as well as a `txn`.
    due = due_and_unread(h)
    return {(op.index,) for op in h.committed if _torn(h, op, due)}


def _torn(h: History, op: Op, due: set[Name]) -> bool:
    names = {sent.name for sent in op.sends if h.writer[sent.name] is op}
    return bool(names & h.ok_read) and bool(names & due)


def unseen(h: History) -> Found:
    """(key, value)."""
    sent = {sent.name for op in h.done if op.type == "ok" for sent in op.sends}
    return set(sent - h.ok_read)  # 4.4


def phantom(h: History) -> Found:
    """(key, value)."""
    # 6. Choice: polled by an ok operation, for what an info or a fail one read proves nothing (1.5).
    return {name for name in h.ok_read if name not in h.writer}
