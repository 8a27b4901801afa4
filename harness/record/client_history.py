"""Makes `history.jsonl` from the journals: the history in the format of external histories (docs/histories.md).

Checkers of external histories need the order of the micro-operations in each transaction, which the tables do not have.
The lines of a journal are ordered by time, so the journals are merged while they are read.

An operation without a completion is `info`, with its known acknowledgements and polls. A process without an end event
has crashed. An observer has a process number too, and its polls are outside transactions. Faults belong to the process
`nemesis`.
"""

import heapq
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from harness.model.pipeline import StageSpec
from harness.model.vocabulary import EventType, Isolation, Outcome, Role
from harness.record.events import (
    Ack,
    Assigned,
    Completed,
    EndInvoked,
    Event,
    Invoked,
    JournalBegan,
    JournalEnded,
    Polled,
)
from harness.record.journal import JournalContents, read_events
from harness.record.naming import value_name

OBSERVER_PROCESS = 999
"""The process number of the observer. It is above the number of every worker, because workers restart less often."""
NEMESIS = "nemesis"
HistoryLine = tuple[int, dict[str, Any]]
"""The time in nanoseconds, and the other fields of the line."""


def write_client_history(journals: Sequence[Path], stages: Sequence[StageSpec], path: Path) -> None:
    """Write the history to `path`. The file appears only after it is complete."""
    promised = {stage.name: stage.promised for stage in stages}
    merged = heapq.merge(*(_events(journal, promised) for journal in sorted(journals)), key=itemgetter(0))
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        for index, (time_ns, body) in enumerate(merged):
            line = {"index": index, "time": time_ns, **body}
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    part.replace(path)


def file_crc(path: Path) -> int:
    """Return the CRC-32 of a file."""
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            crc = zlib.crc32(chunk, crc)
    return crc


@dataclass
class OpenHistoryTransaction:
    """A transaction without a completion so far."""

    invoked: Invoked
    acks: Sequence[Ack | None] = ()
    polls: dict[int, Any] = field(default_factory=dict)  # the polled records, by index of the micro-operation


class HistoryWriter:
    """Converts the events of one journal to lines of the history."""

    def __init__(self, journal: str, promised: Mapping[str, str]) -> None:
        self._journal = journal
        self._promised = promised
        self._head: JournalBegan | None = None
        self._open: OpenHistoryTransaction | None = None
        self._op = -1  # the number of the open transaction
        self._keys: dict[str, None] = {}
        self._process = 0
        self._ended = False

    def convert(self, time_ns: int, event: Event) -> Iterator[HistoryLine]:
        """Yield the lines of the history for an event. Most events have none, one or two."""
        match event:
            case JournalBegan():
                self._head = event
                self._process = event.process or 0
            case JournalEnded():
                self._ended = True
            case _ if self._role is Role.WORKER:
                yield from self._of_worker(time_ns, event)
            case Polled() if self._role is Role.OBSERVER and event.records:
                yield from self._polled(time_ns, event, OBSERVER_PROCESS)
            case Invoked() | Completed() if self._journal == NEMESIS:
                fault = {"value": event.target, "evidence": getattr(event, "evidence", None)}
                yield time_ns, {"process": NEMESIS, "type": EventType.INFO, "f": event.f, **fault}

    def close(self, time_ns: int) -> Iterator[HistoryLine]:
        """Yield the last lines: an open transaction is `info`, and a process without an end event has crashed."""
        if self._role is not Role.WORKER or self._head is None:
            return
        yield from self._complete(time_ns, EventType.INFO)
        if not self._ended:
            for kind in (EventType.INVOKE, EventType.INFO):
                yield time_ns, self._line(kind, "crash", None)

    @property
    def _role(self) -> Role | None:
        roles = {role.value: role for role in Role}
        return roles.get(self._head.role) if self._head else None

    def _of_worker(self, time_ns: int, event: Event) -> Iterator[HistoryLine]:
        match event:
            case Invoked() if event.f == "txn" and event.micro:
                # The completion of the previous transaction is missing.
                yield from self._complete(time_ns, EventType.INFO)
                self._open, self._op, self._process = OpenHistoryTransaction(event), event.op, event.process
                yield time_ns, self._line(EventType.INVOKE, "txn", self._micro(known=False))
            case EndInvoked() if self._open and event.op == self._op:
                self._open.acks = event.acks
            case Polled() if self._open and event.txn == self._op and event.at is not None:
                self._open.polls[event.at] = event.records or {}
            case Completed() if self._open and event.op == self._op:
                self._open.acks = event.acks or self._open.acks
                yield from self._complete(time_ns, event.type, event.error)
            case Polled() if event.txn is None:
                yield from self._polled(time_ns, event, event.process)
            case Assigned():
                for key in event.partitions:
                    if event.gained:
                        self._keys[key] = None
                    else:
                        self._keys.pop(key, None)
                self._process = event.process
                for kind in (EventType.INVOKE, EventType.OK):
                    yield time_ns, self._line(kind, "assign", list(self._keys))

    def _complete(
        self, time_ns: int, outcome: Outcome | EventType, error: str | None = None
    ) -> Iterator[HistoryLine]:
        if self._open is not None:
            error_field = {} if error is None else {"error": error}
            yield time_ns, self._line(outcome, "txn", self._micro(known=True)) | error_field
            self._open = None

    def _micro(self, *, known: bool) -> list[list[Any]]:
        """Return the micro-operations of the open transaction. With `known`, include their results."""
        assert self._open is not None
        operations: list[list[Any]] = []
        n = 0
        for at, key in enumerate(self._open.invoked.micro):
            if key is None:
                records = self._open.polls.get(at)
                operations.append(["poll", records] if known and records is not None else ["poll"])
                continue
            value = value_name(self._journal, self._op, n)
            ack = self._open.acks[n] if known and n < len(self._open.acks) else None
            acknowledged = ack is not None and ack[1] is not None and ack[1] >= 0
            operations.append(["send", key, [ack[1], value] if ack and acknowledged else value])
            n += 1
        return operations

    def _polled(self, time_ns: int, event: Polled, process: int) -> Iterator[HistoryLine]:
        self._process = process
        yield event.call, self._line(EventType.INVOKE, "poll", [["poll"]])
        yield time_ns, self._line(EventType.OK, "poll", [["poll", event.records]])

    def _line(self, kind: Outcome | EventType, f: str, value: object) -> dict[str, Any]:
        promised = self._promised.get(self._head.stage or "") if self._head else None
        has_other_isolation = promised not in (None, Isolation.READ_COMMITTED.value)
        line: dict[str, Any] = {"process": self._process, "type": kind.value, "f": f, "value": value}
        return line | ({"isolation": promised} if has_other_isolation else {})


def _events(path: Path, promised: Mapping[str, str]) -> Iterator[HistoryLine]:
    """Yield the history lines of one journal in the order of time."""
    writer = HistoryWriter(path.stem, promised)
    time_ns = 0
    for line in read_events(path, JournalContents(path.stem, 0)):
        for line_ns, body in writer.convert(line.time_ns, line.event):
            # An event that is out of order gets the time of the event before it.
            time_ns = max(time_ns, line_ns)
            yield time_ns, body
        time_ns = max(time_ns, line.time_ns)
    yield from writer.close(time_ns)
