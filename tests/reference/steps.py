"""3. Order within a process and within an operation."""

from collections.abc import Iterator
from itertools import pairwise

from tests.reference.history import History, Name, Op, Record
from tests.reference.records import Found

Steps = dict[str, Found]


def _step(h: History, before: Name, after: Name) -> str:
    """`skip`, `nonmonotonic` or nothing: how one value follows another in the version order."""
    first, second = h.order.index(before), h.order.index(after)
    if first is None or second is None:  # 2.2, 6
        return ""
    if second - first > 1:
        return "skip"
    return "nonmonotonic" if second - first < 1 else ""  # a repeat too


def _by_key(records: list[Record]) -> dict[str, list[Name]]:
    found: dict[str, list[Name]] = {}
    for record in records:
        found.setdefault(record.key, []).append(record.name)
    return found


def _forget(op: Op, positions: dict[str, tuple[Op, Name]]) -> None:
    """`assign` and `subscribe` keep the positions of the keys that they name."""
    if op.f in ("assign", "subscribe") and op.type in ("ok", "info"):
        for key in positions.keys() - op.keys:
            del positions[key]


def _processes(h: History) -> Iterator[list[Op]]:
    for process in {op.process for op in h.done}:
        yield [op for op in h.done if op.process == process]


def polls_of_a_process(h: History) -> Steps:
    """(operation, key, the operation before)."""
    found: Steps = {"poll-skip": set(), "nonmonotonic-poll": set()}
    names = {"skip": "poll-skip", "nonmonotonic": "nonmonotonic-poll"}
    for ops in _processes(h):  # 3.1
        positions: dict[str, tuple[Op, Name]] = {}
        for op in ops:
            _forget(op, positions)
            for key, read in _by_key(op.reads).items():
                if key in positions:
                    before, last = positions[key]
                    if step := _step(h, last, read[0]):
                        found[names[step]].add((op.index, key, before.index))
                if op.type == "ok":
                    positions[key] = op, read[-1]
    return found


def sends_of_a_process(h: History) -> Found:
    """(operation, key, the operation before)."""
    found: Found = set()
    for ops in _processes(h):  # 3.3
        positions: dict[str, tuple[Op, Name]] = {}
        for op in ops:
            _forget(op, positions)
            if op.type not in ("ok", "info"):
                continue
            for key, sent in _by_key(op.sends).items():
                if key in positions and _step(h, positions[key][1], sent[0]) == "nonmonotonic":
                    found.add((op.index, key, positions[key][0].index))
                positions[key] = op, sent[-1]
    return found


def within_operations(h: History) -> Steps:
    """(operation, key, position of the later of the two among the operation's reads or sends of the key)."""
    found: Steps = {
        f"int-{name}": set() for name in ("poll-skip", "nonmonotonic-poll", "send-skip", "nonmonotonic-send")
    }
    for op in h.done:
        for act, records in (("poll", op.reads), ("send", op.sends)):
            for key, names in _by_key(records).items():
                if act == "poll" and key in op.rebalanced:  # 3.2; of sends 3.4 says nothing
                    continue
                for position, (before, after) in enumerate(pairwise(names), 1):
                    step = _step(h, before, after)
                    if step:
                        found[f"int-{act}-skip" if step == "skip" else f"int-nonmonotonic-{act}"].add(
                            (op.index, key, position)
                        )
    return found


def steps(h: History) -> Steps:
    """All of section 3."""
    return polls_of_a_process(h) | {"nonmonotonic-send": sends_of_a_process(h)} | within_operations(h)
