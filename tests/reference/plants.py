"""Anomalies to plant: for each name a few operations in which it is, by processes of their own.

What is planted in records stands at the end of keys that others use too, and is dealt out among the events of
the others; a cycle stands after all of them, on keys of its own, so that no legal cycle grows into it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.reference.forms import Mop, f_of, mops_as_invoked
from tests.reference.history import Event


@dataclass
class Planter:
    """The history into which anomalies are planted: its unused names, and its events."""

    rng: Random
    ends: dict[str, int]  # by key, the first free offset
    processes: int  # the first free process
    values: int  # the first free value
    events: list[Event] = field(default_factory=list)

    def key(self) -> str:
        return self.rng.choice(sorted(self.ends))

    def records(self, key: str, count: int) -> list[list[int]]:
        """So many new records `[offset, value]` at the end of the key, with gaps between some."""
        made = []
        for _ in range(count):
            self.ends[key] += self.rng.choice([0, 0, 1])
            made.append([self.ends[key], self.value()])
            self.ends[key] += 1
        return made

    def value(self) -> int:
        self.values += 1
        return self.values - 1

    def process(self) -> int:
        self.processes += 1
        return self.processes - 1

    def event(self, process: int, kind: str, mops: Sequence[Mop], **more: Any) -> None:
        value = mops_as_invoked(mops) if kind == "invoke" else list(mops)
        self.events.append({"process": process, "type": kind, "f": f_of(mops), "value": value, **more})

    def op(self, *mops: Mop, kind: str = "ok", process: int | None = None) -> None:
        """An operation, by a new process unless one is named."""
        process = self.process() if process is None else process
        self.event(process, "invoke", mops)
        self.event(process, kind, mops)

    def sent(self, key: str, count: int) -> list[list[int]]:
        """Append so many records to the key. Each is sent by one operation."""
        made = self.records(key, count)
        for record in made:
            self.op(["send", key, record])
        return made


def _poll(key: str, *records: Sequence[int | None]) -> Mop:
    return ["poll", {key: [list(record) for record in records]}]


def lost_write(p: Planter) -> None:
    key = p.key()
    _, last = p.sent(key, 2)
    p.op(_poll(key, last))


def duplicate(p: Planter) -> None:
    key = p.key()
    first, second = p.records(key, 2)
    p.op(["send", key, first])
    p.op(_poll(key, first, [second[0], first[1]]))


def inconsistent_offsets(p: Planter) -> None:
    key = p.key()
    (record,) = p.sent(key, 1)
    other = [record[0], p.value()]
    p.op(["send", key, [None, other[1]]])
    p.op(_poll(key, record))
    p.op(_poll(key, other))


def aborted_read(p: Planter) -> None:
    key = p.key()
    (record,) = p.records(key, 1)
    p.op(["send", key, record], kind="fail")
    p.op(_poll(key, record))
    unpromised = p.process()  # reads the same, and may
    p.event(unpromised, "invoke", [_poll(key, record)], isolation="read_uncommitted")
    p.event(unpromised, "ok", [_poll(key, record)], isolation="read_uncommitted")


def precommitted_read(p: Planter) -> None:
    key = p.key()
    (record,) = p.records(key, 1)
    mops: list[Mop] = [["send", key, record], _poll(key, record)]
    p.rng.shuffle(mops)
    p.op(*mops, kind=p.rng.choice(["ok", "info", "fail"]))


def unseen(p: Planter) -> None:
    p.op(["send", p.key(), p.rng.choice([[None, p.value()], p.value()])])


def torn_transaction(p: Planter) -> None:
    key, other = p.key(), p.key()
    (seen,) = p.records(other, 1)
    (lost,) = p.records(key, 1)
    p.op(["send", other, seen], ["send", key, lost])
    (last,) = p.sent(key, 1)
    p.op(_poll(other, seen))
    p.op(_poll(key, last))


def phantom(p: Planter) -> None:
    key = p.key()
    (record,) = p.records(key, 1)
    p.op(_poll(key, record), kind=p.rng.choice(["ok", "info", "fail"]))
    p.op(_poll(key, record))  # an ok one alone proves it


def poll_skip(p: Planter) -> None:
    key, process = p.key(), p.process()
    first, middle, last = p.sent(key, 3)
    p.op(_poll(key, first), process=process)
    p.op(_poll(key, last), process=process, kind=p.rng.choice(["ok", "fail", "info"]))
    p.op(_poll(key, first, middle, last))


def nonmonotonic_poll(p: Planter) -> None:
    key, process = p.key(), p.process()
    first, second = p.sent(key, 2)
    p.op(_poll(key, first, second), process=process)
    p.op(
        _poll(key, p.rng.choice([first, second])), process=process, kind=p.rng.choice(["ok", "fail", "info"])
    )


def int_poll_skip(p: Planter) -> None:
    key = p.key()
    first, middle, last = p.sent(key, 3)
    p.op(_poll(key, first), _poll(key, last))
    p.op(_poll(key, first, middle, last))


def int_nonmonotonic_poll(p: Planter) -> None:
    key = p.key()
    first, second = p.sent(key, 2)
    p.op(_poll(key, first, second), _poll(key, p.rng.choice([first, second])))


def nonmonotonic_send(p: Planter) -> None:
    key, process = p.key(), p.process()
    first, second = p.records(key, 2)
    p.op(["send", key, second], process=process)
    p.op(["send", key, first], process=process)
    p.op(_poll(key, first, second))


def int_nonmonotonic_send(p: Planter) -> None:
    key = p.key()
    first, second = p.records(key, 2)
    p.op(["send", key, second], ["send", key, first])
    p.op(_poll(key, first, second))


def int_send_skip(p: Planter) -> None:
    key = p.key()
    first, middle, last = p.records(key, 3)
    p.op(["send", key, first], ["send", key, last])
    p.op(["send", key, middle])
    p.op(_poll(key, first, middle, last))


SHAPES = {
    "G0": ["ww", "ww"],
    "G0-process": ["ww", "ww", "process"],
    "G0-realtime": ["ww", "realtime"],
    "G1c": ["wr", "wr"],
    "G1c-process": ["wr", "process"],
    "G1c-realtime": ["wr", "realtime"],
    "G1c-ww": ["ww", "wr"],
    "G1c-ww-process": ["ww", "wr", "process"],
    "G1c-ww-realtime": ["ww", "wr", "realtime"],
    "G-single": ["ww", "rw"],
    "G-single-process": ["wr", "rw", "process"],
    "G-single-realtime": ["rw", "realtime"],
    "G2": ["rw", "rw"],
    "G2-process": ["rw", "rw", "process"],
    "G2-realtime": ["rw", "rw", "realtime"],
}
"""For each name, the edges of a cycle of it, one after the other; only the last may be one of order."""


def cycle(p: Planter, kinds: Sequence[str]) -> None:
    """A cycle of these edges, from each operation to the next and the last to the first, on a key each.

    All operations are open at the same time, but for the one after an edge of order, which begins when the
    one before it has ended.
    """
    count = len(kinds)
    mops: list[list[Mop]] = [[] for _ in kinds]
    last_poll: Mop = ["poll", {}]
    for at, kind in enumerate(kinds):
        if kind in ("process", "realtime"):
            continue
        key = f"c{p.values}"
        p.ends[key] = 0
        first, second = p.records(key, 2)
        target = mops[(at + 1) % count]
        if kind == "rw":
            p.op(["send", key, first])
            mops[at].append(_poll(key, first))
        else:
            mops[at].append(["send", key, first])
        if kind == "wr":
            target.append(_poll(key, first))
            last_poll[1][key] = [first]
        else:
            target.append(["send", key, second])
            last_poll[1][key] = [first, second]
    processes = [p.process() for _ in kinds]
    if kinds[-1] == "process":
        processes[0] = processes[-1]
    late = [0] if kinds[-1] in ("process", "realtime") else []
    for at in range(count):
        if at not in late:
            p.event(processes[at], "invoke", mops[at])
    p.event(processes[-1], "ok", mops[-1])
    for at in late:
        p.event(processes[at], "invoke", mops[at])
    for at in range(count - 1):
        p.event(processes[at], "ok", mops[at])
    p.op(last_poll)


def planted_cycle(p: Planter, name: str) -> None:
    """A cycle of this name, perhaps longer than it need be."""
    *kinds, last = SHAPES[name]
    longer = [kinds[0]] * p.rng.choice([0, 0, 1, 2]) if kinds[0] != "rw" or "G2" in name else []
    cycle(p, [*longer, *kinds, last])


RECORDS: dict[str, Callable[[Planter], None]] = {
    "lost-write": lost_write,
    "duplicate": duplicate,
    "inconsistent-offsets": inconsistent_offsets,
    "aborted-read": aborted_read,
    "precommitted-read": precommitted_read,
    "unseen": unseen,
    "torn-transaction": torn_transaction,
    "phantom": phantom,
    "poll-skip": poll_skip,
    "nonmonotonic-poll": nonmonotonic_poll,
    "int-poll-skip": int_poll_skip,
    "int-nonmonotonic-poll": int_nonmonotonic_poll,
    "nonmonotonic-send": nonmonotonic_send,
    "int-nonmonotonic-send": int_nonmonotonic_send,
    "int-send-skip": int_send_skip,
}
PLANTABLE = (*RECORDS, *SHAPES)
