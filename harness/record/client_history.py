"""From journals to `history.jsonl`: what the clients told, in the form of external histories (docs/histories.md).

It holds what a checker of external histories needs and the tables do not say: the micro-operations of each
transaction in their order. Every journal is in the order of its times, so they are merged as they are read.

An operation without a completion is `info`, with what is known of it; a process that never said that it had ended
crashes. An observer is a numbered process too, whose polls are in no transaction. What was done to the cluster
stands there as the process `nemesis`.
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
from harness.record.journal_lines import JournalContents, lines
from harness.record.naming import value_name

OBSERVER_PROCESS = 999
"""The first observer's number: workers never have so many incarnations."""
NEMESIS = "nemesis"
Told = tuple[int, dict[str, Any]]
"""A time, and what is said of it."""


def write_client_history(journals: Sequence[Path], stages: Sequence[StageSpec], path: Path) -> None:
    """Write the history whole, or not at all."""
    promised = {stage.name: stage.promised for stage in stages}
    merged = heapq.merge(*(_events(one, promised) for one in sorted(journals)), key=itemgetter(0))
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        for index, (time_ns, body) in enumerate(merged):
            line = {"index": index, "time": time_ns, **body}
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    part.replace(path)


def file_crc(path: Path) -> int:
    """Of a file's content."""
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            crc = zlib.crc32(chunk, crc)
    return crc


@dataclass
class OpenHistoryTransaction:
    """One that has not completed."""

    invoked: Invoked
    acks: Sequence[Ack | None] = ()
    polls: dict[int, Any] = field(default_factory=dict)  # by micro-operation, what it gave


class HistoryWriter:
    """Turns the events of one process into those of a history, one after the other."""

    def __init__(self, journal: str, promised: Mapping[str, str]) -> None:
        self._journal = journal
        self._promised = promised
        self._head: JournalBegan | None = None
        self._open: OpenHistoryTransaction | None = None
        self._op = -1  # the open one
        self._keys: dict[str, None] = {}
        self._process = 0
        self._ended = False

    def tell(self, time_ns: int, event: Event) -> Iterator[Told]:
        """What an event says to a history."""
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
                told = {"value": event.target, "evidence": getattr(event, "evidence", None)}
                yield time_ns, {"process": NEMESIS, "type": EventType.INFO, "f": event.f, **told}

    def close(self, time_ns: int) -> Iterator[Told]:
        """What is to be said after the last event."""
        if self._role is not Role.WORKER or self._head is None:
            return
        yield from self._complete(time_ns, EventType.INFO)
        if not self._ended:
            for kind in (EventType.INVOKE, EventType.INFO):
                yield time_ns, self._said(kind, "crash", None)

    @property
    def _role(self) -> Role | None:
        roles = {role.value: role for role in Role}
        return roles.get(self._head.role) if self._head else None

    def _of_worker(self, time_ns: int, event: Event) -> Iterator[Told]:
        match event:
            case Invoked() if event.f == "txn" and event.micro:
                yield from self._complete(
                    time_ns, EventType.INFO
                )  # its own completion is among the missing lines
                self._open, self._op, self._process = OpenHistoryTransaction(event), event.op, event.process
                yield time_ns, self._said(EventType.INVOKE, "txn", self._micro(known=False))
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
                    yield time_ns, self._said(kind, "assign", list(self._keys))

    def _complete(
        self, time_ns: int, outcome: Outcome | EventType, error: str | None = None
    ) -> Iterator[Told]:
        if self._open is not None:
            told = {} if error is None else {"error": error}
            yield time_ns, self._said(outcome, "txn", self._micro(known=True)) | told
            self._open = None

    def _micro(self, *, known: bool) -> list[list[Any]]:
        """The micro-operations of the open transaction; `known`: with what came of them."""
        assert self._open is not None
        told: list[list[Any]] = []
        n = 0
        for at, key in enumerate(self._open.invoked.micro):
            if key is None:
                given = self._open.polls.get(at)
                told.append(["poll", given] if known and given is not None else ["poll"])
                continue
            value = value_name(self._journal, self._op, n)
            ack = self._open.acks[n] if known and n < len(self._open.acks) else None
            acknowledged = ack is not None and ack[1] is not None and ack[1] >= 0
            told.append(["send", key, [ack[1], value] if ack and acknowledged else value])
            n += 1
        return told

    def _polled(self, time_ns: int, event: Polled, process: int) -> Iterator[Told]:
        self._process = process
        yield event.call, self._said(EventType.INVOKE, "poll", [["poll"]])
        yield time_ns, self._said(EventType.OK, "poll", [["poll", event.records]])

    def _said(self, kind: Outcome | EventType, f: str, value: object) -> dict[str, Any]:
        promised = self._promised.get(self._head.stage or "") if self._head else None
        apart = promised not in (None, Isolation.READ_COMMITTED.value)
        told: dict[str, Any] = {"process": self._process, "type": kind.value, "f": f, "value": value}
        return told | ({"isolation": promised} if apart else {})


def _events(path: Path, promised: Mapping[str, str]) -> Iterator[Told]:
    """What one journal says to a history, in the order of time."""
    teller = HistoryWriter(path.stem, promised)
    time_ns = 0
    for line in lines(path, JournalContents(path.stem, 0)):
        for told_ns, body in teller.tell(line.time_ns, line.event):
            time_ns = max(time_ns, told_ns)  # what stands out of its place in time is told where it stands
            yield time_ns, body
        time_ns = max(time_ns, line.time_ns)
    yield from teller.close(time_ns)
