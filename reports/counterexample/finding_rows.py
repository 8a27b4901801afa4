"""The rows of a run's tables that its findings need, read once for all findings."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.common.errors import UnreadableInput
from harness.record.protocol_journal import ProtocolJournal
from harness.record.table_reader import Row, RunTables
from harness.record.timeline.by_logs import stored_states
from harness.record.timeline.markers import batches_of
from harness.record.timeline.model import Timeline
from harness.results.example import Example, Part
from harness.results.verdict import FaultReport
from harness.results.wording import integer

Position = tuple[int, int]
"""Partition number in the run, and offset."""
OFFSETS = "__consumer_offsets"
MOST_RECORDS = 50
MOST_INPUTS = 3
_REMOVED = re.compile(
    r" group (?P<group>\S+) in state .*reason: removing member (?P<member>\S+) on (?P<why>[^.;)]+)"
    r"|GroupId (?P<own_group>\S+?)\] Member (?P<own_member>\S+) fenced from the group because (?P<own_why>[^.;]+)"
)
"""A removal in the log of a group coordinator: of the classic protocol, and of KIP-848."""
_SKIPPED = re.compile(
    r"Couldn't find leader endpoint for partitions \S*\((?P<partitions>.*?)\) .* for (?P<id>[^,]+),"
)
"""A line of a transaction coordinator that writes no markers to some partitions."""


@dataclass(frozen=True)
class Removal:
    """A group coordinator removed a member that did not leave by itself."""

    at_ns: int
    group: str
    member: str
    why: str


class FindingEvidence:
    """What the tables say about the records of some examples. Raises `UnreadableInput` for a damaged table."""

    def __init__(
        self,
        t: RunTables,
        timeline: Timeline,
        examples: Iterable[Example],
        faults: Sequence[FaultReport],
        protocol: ProtocolJournal,
    ) -> None:
        self.t, self.timeline, self.faults, self.protocol = t, timeline, faults, protocol
        self._examples = list(examples)
        self._requests: dict[frozenset[str], ProtocolJournal] = {}
        self._operations_by_id: dict[str, list[dict[str, Any]]] = {}

    def records(self, example: Example) -> list[Position]:
        """Return the positions of the first records of an example."""
        return self.positions(example.records, MOST_RECORDS)

    def inputs(self, example: Example) -> list[Position]:
        """Return the positions of the first inputs of an example."""
        return self.positions(example.inputs, MOST_INPUTS)

    def offset_partitions(self, example: Example) -> set[int]:
        """Return the partitions whose committed offsets tell about an example: those of its inputs and offsets."""
        parts = [(str(part.get("topic")), integer(part.get("partition")) or 0) for part in example.offsets]
        own = {self.t.numbers[each] for each in parts if each in self.t.numbers}
        return own | {tp for tp, _ in self.inputs(example)}

    def positions(self, parts: Iterable[Part], most: int = MOST_RECORDS) -> list[Position]:
        """Return the first positions of some parts of an example."""
        positions: dict[Position, None] = {}
        for part in parts:
            offset, partition = integer(part.get("offset")), integer(part.get("partition"))
            tp = self.t.numbers.get((str(part.get("topic")), partition if partition is not None else -1))
            if tp is not None and offset is not None:
                positions[tp, offset] = None
        return list(positions)[:most]

    @cached_property
    def _batches(self) -> dict[Position, dict[str, Any]]:
        """The batches that hold the records and inputs of the examples, with their markers."""
        return batches_of(
            self.t,
            (each for example in self._examples for each in [*self.records(example), *self.inputs(example)]),
        )

    def batch(self, position: Position) -> Row | None:
        """Return the batch that holds a record, with the marker that decides it; None: the log is not stored."""
        return self._batches.get(position)

    @cached_property
    def _broker_lines(self) -> list[tuple[int, str, re.Match[str]]]:
        """The lines of the brokers' logs about removed members and skipped markers: time, file and match."""
        found = []
        for path in sorted(self.t.folder.glob("brokers/*/server.log")):
            with suppress(OSError), path.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    match = _REMOVED.search(line) or _SKIPPED.search(line)
                    at_ns = self._logged_ns(line) if match else None
                    if match and at_ns is not None:
                        found.append((at_ns, f"broker {path.parent.name}", match))
        return sorted(found, key=lambda each: each[0])

    def _logged_ns(self, line: str) -> int | None:
        with suppress(ValueError):
            return self.t.at_ns(datetime.fromisoformat(line.split(" ", 1)[0]).timestamp() * 1000)
        return None

    @cached_property
    def removals(self) -> list[Removal]:
        """The members that groups removed, from the brokers' logs, in order of time."""
        lines = [(at_ns, match.groupdict()) for at_ns, _, match in self._broker_lines if match.re is _REMOVED]
        return [
            Removal(at_ns, *(facts[name] or facts[f"own_{name}"] for name in ("group", "member", "why")))
            for at_ns, facts in lines
        ]

    def skipped_markers(self, tp: int, transactional_id: str | None) -> list[tuple[int, str]]:
        """Return when brokers logged that they write no marker of an id to a partition, and which brokers."""
        partition = self.t.name(tp).replace("/", "-")
        return [
            (at_ns, broker)
            for at_ns, broker, match in self._broker_lines
            if match.re is _SKIPPED
            and match["id"] == transactional_id
            and partition in match["partitions"].split(", ")
        ]

    def markers_ns(self, tp: int, producer_id: int) -> list[int]:
        """Return when the markers of a producer were written to a partition."""
        rows = self.t.rows("batches", tp=[tp], producer_id=[producer_id], leader=[True], control=[True])
        times_ns = (self.t.at_ns(row["max_timestamp_ms"]) for row in rows)
        return [time_ns for time_ns in times_ns if time_ns is not None]

    @cached_property
    def states(self) -> list[dict[str, Any]]:
        """The states in the transaction log with their times `at_ns`: see `stored_states`."""
        return stored_states(self.t)

    def requests_of(self, transactional_ids: Collection[str]) -> ProtocolJournal:
        """Return all requests of these ids that went through the protocol proxy, also those that no rule changed."""
        key = frozenset(transactional_ids)
        if key not in self._requests:
            # The report says once that the journal cannot be read. The rest of the evidence is still told.
            with suppress(UnreadableInput):
                self._requests[key] = self.t.protocol_of(key)
        return self._requests.setdefault(key, ProtocolJournal())

    @cached_property
    def ids_by_producer(self) -> Mapping[int, str]:
        """By producer id: its transactional id."""
        return {
            row["producer_id"]: row["transactional_id"]
            for row in self.states
            if row["producer_id"] is not None and row["transactional_id"] is not None
        }

    @cached_property
    def processes_by_id(self) -> Mapping[str, Sequence[str]]:
        """By transactional id: the instances of a custom pipeline that used it, as far as they are known."""
        users: dict[str, list[str]] = {}
        for journal, client in sorted(self.t.metadata.program_clients.items()):
            for own in client.transactional_ids:
                users.setdefault(own, []).append(journal)
        declared = pc.unique(self.timeline.transactions["transactional_id"]).to_pylist()
        for own in declared:
            if own is not None and own not in users:
                process = self.transactions_of(own)[0]["process"]
                if process is not None:
                    users[own] = [process]
        return users

    def transactions_of(self, transactional_id: str) -> list[dict[str, Any]]:
        """Return the transactions of an id, in the order of their start."""
        table = self.timeline.transactions
        own = table.filter(pc.fill_null(pc.equal(table["transactional_id"], transactional_id), False))
        return list(own.sort_by("begin_ns").to_pylist())

    def operations_of(self, transactional_id: str) -> list[dict[str, Any]]:
        """Return the operations of a transactional id in the order of their calls, from the journals."""
        if transactional_id not in self._operations_by_id:
            rows = self.t.rows("ops", transactional_id=[transactional_id])
            self._operations_by_id[transactional_id] = sorted(rows, key=lambda row: row["call_ns"])
        return self._operations_by_id[transactional_id]

    def operation_at(self, transactional_id: str, at_ns: int) -> Row | None:
        """Return the last operation of a transactional id that was called before a time, from the journals."""
        earlier = [row for row in self.operations_of(transactional_id) if row["call_ns"] <= at_ns]
        return earlier[-1] if earlier else None

    def operations(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return the operations with these names, from the journals."""
        if not names or not self.t.exists("ops"):
            return {}
        return {row["name"]: row for row in self.t.rows("ops", name=set(names))}

    def taken(self, inputs: Sequence[Position], op: int | None) -> tuple[Position, ...]:
        """Return those of the inputs that an operation claims; all of them if its claims are not known."""
        table = self._claims
        claims = [] if table is None else table.filter(pc.equal(table["op"], op)).to_pylist()
        return tuple(
            (tp, offset)
            for tp, offset in inputs
            if not claims or any(row["tp"] == tp and row["first"] <= offset < row["next"] for row in claims)
        )

    @cached_property
    def _claims(self) -> pa.Table | None:
        return self.t.table("claims") if self.t.exists("claims") else None

    @cached_property
    def _offset_commits(self) -> pa.Table | None:
        return self.t.table("offsets") if self.t.exists("offsets") else None

    def offset_commits(self, tps: Collection[int], producer_id: int | None = None) -> list[dict[str, Any]]:
        """Return the offset commits for these partitions, of one producer or of all, in the order of the log."""
        table = self._offset_commits
        if table is None or not tps:
            return []
        mask = pc.is_in(table["tp"], value_set=pa.array(list(tps), pa.int32()))
        if producer_id is not None:
            mask = pc.and_(mask, pc.equal(table["producer_id"], producer_id))
        rows = table.filter(mask).to_pylist()
        return sorted(rows, key=lambda row: (row["log_tp"], row["log_offset"]))
