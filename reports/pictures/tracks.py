"""The tracks of a trace: slices on threads, so that slices of one thread always nest, and flows between slices.

The file is Trace Event JSON of Chromium, as Perfetto reads it, written event by event, so that its size does not count
in memory. All times are microseconds since the run began. Slices have whole microseconds, so that no rounding moves the
end of a slice over the end of its parent.

A flow event binds to the slice that began last on its thread. So each slice that flows bind to has an anchor: the time
from its begin until the next slice or mark begins inside it, or until its end.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Any

import orjson

from harness.common.wording import printable, redact_text

US = 1_000
"""Nanoseconds in a microsecond."""
MOST_CHARACTERS = 300
"""The largest number of characters of a name or an argument."""
_THREADS = 1_000_000
"""The largest number of threads of a process. Thread numbers are unique in the trace, and differ from those of
processes: a thread with the number of its process would be called its main thread.
"""


def microseconds(time_ns: float) -> int:
    """Convert nanoseconds since the run began. Times before the run become 0."""
    return max(0, int(time_ns // US))


class TraceFile:
    """Writes events to a stream. `finish` must be called at the end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.events = 0
        # Without displayTimeUnit: Perfetto reports this key as a problem of the trace.
        stream.write(b'{"traceEvents":[')

    def write(self, event: Mapping[str, Any]) -> None:
        """Append one event. Keys whose value is None are left out."""
        self._stream.write(b",\n" if self.events else b"\n")
        self._stream.write(orjson.dumps({key: value for key, value in event.items() if value is not None}))
        self.events += 1

    def finish(self, about: Mapping[str, Any]) -> None:
        """End the list of events and add facts about the trace."""
        self._stream.write(b'\n],"otherData":' + orjson.dumps(about) + b"}\n")


@dataclass(frozen=True)
class Mark:
    """A moment inside a slice."""

    name: str
    at_us: int


@dataclass
class Slice:
    """Something that took time. `end_us` is at least one microsecond after `begin_us`."""

    name: str
    begin_us: int
    end_us: int
    args: Mapping[str, Any] = field(default_factory=dict)
    color: str | None = None  # a color name of the Trace Event Format; Perfetto chooses the color by the name
    keys: Sequence[Hashable] = ()  # flows find the slice by each of them
    children: list["Slice"] = field(default_factory=list)
    marks: Sequence[Mark] = ()

    def __post_init__(self) -> None:
        self.end_us = max(self.end_us, self.begin_us + 1)

    def nest(self, child: "Slice") -> bool:
        """Add a child that begins after all other children. Return false if it does not fit into this slice.

        The child begins a microsecond late if it begins with this slice, so that a flow event fits before it.
        """
        free_us = self.children[-1].end_us if self.children else self.begin_us + 1
        begin_us = max(child.begin_us, free_us)
        if begin_us > child.begin_us + 1 or begin_us >= child.end_us or child.end_us > self.end_us:
            return False
        child.begin_us = begin_us
        self.children.append(child)
        return True


@dataclass(frozen=True)
class Anchor:
    """Where flow events bind to a slice: on a thread, from `begin_us` until before `until_us`."""

    pid: int
    tid: int
    begin_us: int
    until_us: int


class Tracks:
    """Writes slices to threads, and numbers processes and threads.

    A process of a trace is a group of tracks, such as "faults". A thread is one track, such as the faults of one kind.
    Slices of one thread that overlap and do not nest are written to further lanes, which are threads of their own.
    """

    def __init__(self, file: TraceFile) -> None:
        self._file = file
        self._pids: dict[str, int] = {}
        self._tids: Counter[int] = Counter()
        self.anchors: dict[Hashable, Anchor] = {}
        self.slices: Counter[str] = Counter()  # by process, without children

    def draw(self, process: str, thread: str, slices: Iterable[Slice]) -> None:
        """Write the slices of a thread. `thread` must not have been drawn before in this process."""
        pid = self._process(process)
        tids: list[int] = []
        ends_us: list[int] = []
        for root in sorted(slices, key=lambda each: (each.begin_us, -each.end_us)):
            lane = next((n for n, end_us in enumerate(ends_us) if end_us <= root.begin_us), len(tids))
            if lane == len(tids):
                tids.append(self._thread(pid, thread if lane == 0 else f"{thread} (lane {lane + 1})"))
                ends_us.append(0)
            ends_us[lane] = root.end_us
            self._write_slice(pid, tids[lane], process, root)
            self.slices[process] += 1

    def count(self, process: str, name: str, values: Iterable[tuple[int, Mapping[str, float]]]) -> None:
        """Write a counter: for each time in microseconds, the value of each series."""
        pid = self._process(process)
        event = {"ph": "C", "pid": pid, "tid": pid * _THREADS, "name": name}
        for at_us, series in values:
            self._file.write(event | {"ts": at_us, "args": series})

    def flow(self, number: int, keys: Sequence[Hashable], order: Sequence[int]) -> bool:
        """Write arrows from slice to slice, in the order of `keys`. Return whether there are two such slices.

        Slices without an anchor are left out. If the clocks contradict the order, because a slice ended before the one
        in front of it began, one of both is left out: the one whose index is later in `order`.
        """
        steps: list[tuple[float, Anchor]] = []
        indexes: list[int] = []
        for index in order:
            more = sorted([*indexes, index])
            anchors = [self.anchors.get(keys[at]) for at in more]
            possible = _bind([anchor for anchor in anchors if anchor is not None])
            if all(anchors) and possible:
                steps, indexes = possible, more
        if len(steps) < 2:
            return False
        for n, (at_us, anchor) in enumerate(steps):
            phase = "s" if n == 0 else "f" if n == len(steps) - 1 else "t"
            event = {"ph": phase, "pid": anchor.pid, "tid": anchor.tid, "ts": at_us, "id": number}
            binding = "e" if phase == "f" else None  # to the enclosing slice, and not to the next one
            self._file.write(event | {"name": "record", "cat": "record", "bp": binding})
        return True

    def _process(self, name: str) -> int:
        if name not in self._pids:
            pid = self._pids[name] = len(self._pids) + 1
            self._describe(pid, pid * _THREADS, "process", name, pid)
        return self._pids[name]

    def _thread(self, pid: int, name: str) -> int:
        self._tids[pid] += 1
        tid = pid * _THREADS + self._tids[pid]
        self._describe(pid, tid, "thread", text(name), self._tids[pid])
        return tid

    def _describe(self, pid: int, tid: int, kind: str, name: str, index: int) -> None:
        for event, args in (("name", {"name": name}), ("sort_index", {"sort_index": index})):
            self._file.write(
                {"ph": "M", "pid": pid, "tid": tid, "ts": 0, "name": f"{kind}_{event}", "args": args}
            )

    def _write_slice(self, pid: int, tid: int, process: str, each: Slice) -> None:
        event = {"ph": "X", "pid": pid, "tid": tid, "ts": each.begin_us, "dur": each.end_us - each.begin_us}
        args = {key: _argument(value) for key, value in each.args.items() if value is not None}
        names = {"name": text(each.name), "cat": process, "cname": each.color, "args": args or None}
        self._file.write(event | names)
        inside = (*(child.begin_us for child in each.children), *(mark.at_us for mark in each.marks))
        anchor = Anchor(pid, tid, each.begin_us, min((each.end_us, *inside)))
        self.anchors.update(dict.fromkeys(each.keys, anchor))
        for child in each.children:
            self._write_slice(pid, tid, process, child)
        for mark in each.marks:
            instant = {"ph": "i", "s": "t", "pid": pid, "tid": tid, "ts": mark.at_us, "cat": process}
            self._file.write(instant | {"name": text(mark.name)})


def _bind(anchors: Sequence[Anchor]) -> list[tuple[float, Anchor]]:
    """Return increasing times at which flow events bind to these slices. Empty: there are none."""
    steps: list[tuple[float, Anchor]] = []
    for anchor in anchors:
        # Between whole microseconds, because a slice may begin at each of them.
        at_us = max(anchor.begin_us, steps[-1][0] if steps else 0) + 0.5
        if at_us >= anchor.until_us:
            return []
        steps.append((at_us, anchor))
    return steps


@lru_cache(maxsize=10_000)
def text(words: str) -> str:
    """Return words that are safe to export: one line, of limited length, without secrets."""
    return printable(redact_text(words), MOST_CHARACTERS)


def _argument(value: Any) -> Any:
    return text(value) if isinstance(value, str) else value
