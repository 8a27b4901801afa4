"""The story of a run: the rows of its tables, its metadata and its protocol journal, each read once and when needed.

The modules of this room make spans, points and messages from it. Pictures get these, or the story, and read no table.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.common.errors import UnreadableInput
from harness.record.protocol_journal import ProtocolJournal
from harness.record.table_reader import Row, RunTables
from harness.record.timeline.load import Timeline, load, reads_logs, stored_states
from harness.record.timeline.partition_offsets import PartitionLog, batches_of, partition_logs
from harness.results.reasons import ReasonCode
from harness.results.run_metadata import RunPhase
from harness.results.verdict import FaultReport
from reports.known_secrets import known_secrets
from reports.series import Series, by_second
from reports.story.logs import LogLines, Removal, SkippedMarker, coordinator_lines, read_logs
from reports.story.model import TICK_NS

OFFSETS = "__consumer_offsets"
ADJUSTED_NS = 100_000_000
"""A producer makes a record a little before the coordinator hears of its transaction. A time that is moved by less than
this is not called adjusted.
"""
Position = tuple[int, int]
"""Partition number in the run, and offset."""


class Story:
    """What happened in a run. All methods raise `UnreadableInput` for a table that is damaged.

    Args:
        tables: the tables of the run, for the modules of this room alone
        faults: its faults, as the verdict has them. None: as metadata.json has them
        phases: its phases. None: as metadata.json has them
    """

    def __init__(
        self,
        tables: RunTables,
        faults: Sequence[FaultReport] | None = None,
        phases: Sequence[RunPhase] | None = None,
    ) -> None:
        self.tables = tables
        self._faults = faults
        self._phases = phases
        self._requests: dict[frozenset[str], ProtocolJournal] = {}
        self._operations_by_id: dict[str, list[dict[str, Any]]] = {}
        self._batches: dict[Position, dict[str, Any] | None] = {}
        self._logs: dict[int, PartitionLog] = {}

    # The whole run

    @cached_property
    def faults(self) -> Sequence[FaultReport]:
        """The faults of the run, in the order of their numbers."""
        return self.tables.metadata.faults if self._faults is None else self._faults

    @cached_property
    def phases(self) -> Sequence[RunPhase]:
        """The phases of the run. Empty if the run left none, because it was killed."""
        return self.tables.metadata.phases if self._phases is None else self._phases

    @cached_property
    def last_ns(self) -> float:
        """The end of the run: of its last phase, or else of its last operation."""
        if self.phases:
            return self.end_s * 1e9
        last = 1_000_000_000
        for batch in self.tables.batches("ops", ("call_ns", "return_ns")):
            for name in ("call_ns", "return_ns"):
                values = batch[name].drop_null().to_numpy()
                last = max(last, int(values.max()) if len(values) else 0)
        return float(last)

    def partition_name(self, tp: int) -> str:
        """Return for example `invoices/2`."""
        return self.tables.name(tp)

    @property
    def states_stored(self) -> bool:
        """Whether the transaction log is stored."""
        return self.tables.exists("transactions")

    @property
    def end_s(self) -> float:
        """The end of the last phase; infinity if it is not known. Broker times after it do not count."""
        return max((phase.end_s for phase in self.phases), default=math.inf)

    @cached_property
    def timeline(self) -> Timeline:
        """The transactions and commits of the run, by the loader that fits it: journals, or broker logs."""
        return load(self.tables, self.end_s)

    @cached_property
    def transactions(self) -> pa.Table:
        """The transactions of the timeline. Without `timeline`, this reads no batches of data."""
        if "timeline" in self.__dict__:
            return self.timeline.transactions
        return load(self.tables, self.end_s, with_commits=False).transactions

    @cached_property
    def by_logs(self) -> bool:
        """Whether the transactions are read from the broker logs, because no stage keeps a journal."""
        return reads_logs(self.tables)

    @cached_property
    def seconds(self) -> Series:
        """The sums of the transactions and commits by second, at least until the end of the last fault."""
        ends = [fault.end_s if fault.end_s is not None else fault.start_s for fault in self.faults]
        codes: set[ReasonCode] = set()
        with suppress(UnreadableInput):  # the page says that the metadata cannot be read
            codes = {problem.code for problem in self.tables.metadata.evidence_problems}
        if codes & {ReasonCode.NOT_DRAINED, ReasonCode.INPUTS_LEFT}:
            ends += [
                phase.end_s for phase in self.phases if phase.name == "drain"
            ]  # until then the run waited
        return by_second(self.timeline, at_least_s=max(ends, default=1.0))

    @cached_property
    def protocol(self) -> ProtocolJournal:
        """The requests that rules changed. Empty if the journal of the protocol proxy cannot be read."""
        with suppress(UnreadableInput):
            return self.tables.protocol
        return ProtocolJournal()

    def requests_of(self, transactional_ids: Collection[str]) -> ProtocolJournal:
        """Return all requests of these ids that went through the protocol proxy, also those that no rule changed.

        It is empty if the journal cannot be read.
        """
        key = frozenset(transactional_ids)
        if key not in self._requests:
            with suppress(UnreadableInput):
                self._requests[key] = self.tables.protocol_of(key)
        return self._requests.setdefault(key, ProtocolJournal())

    # The transaction log

    @cached_property
    def states(self) -> list[dict[str, Any]]:
        """The states in the transaction log, with the time `at_ns` of each: see `stored_states`."""
        return stored_states(self.tables)

    @cached_property
    def ids_by_producer(self) -> Mapping[int, str]:
        """By producer id: its transactional id."""
        if not self.tables.exists("transactions"):
            return {}
        rows = self.tables.table("transactions", ("producer_id", "transactional_id"))
        pairs = rows.group_by(["producer_id", "transactional_id"]).aggregate([]).drop_null()
        return dict(zip(pairs["producer_id"].to_pylist(), pairs["transactional_id"].to_pylist(), strict=True))

    @cached_property
    def processes_by_id(self) -> Mapping[str, Sequence[str]]:
        """By transactional id: the instances of a custom pipeline that used it last, as far as they are known. Earlier
        incarnations of an instance may have used it too.
        """
        users: dict[str, list[str]] = {}
        for journal, client in sorted(self.tables.metadata.program_clients.items()):
            for own in client.transactional_ids:
                users.setdefault(own, []).append(journal)
        for own in pc.unique(self.transactions["transactional_id"]).to_pylist():
            if own is not None and own not in users:
                process = self.transactions_of(own)[0]["process"]
                if process is not None:
                    users[own] = [process]
        return users

    def transactions_of(self, transactional_id: str) -> list[dict[str, Any]]:
        """Return the transactions of an id, in the order of their start."""
        table = self.transactions
        own = table.filter(pc.fill_null(pc.equal(table["transactional_id"], transactional_id), False))
        return list(own.sort_by("begin_ns").to_pylist())

    # The brokers' logs

    def load_batches(self, positions: Iterable[Position]) -> None:
        """Read the batches of many positions at once. Each partition is read in full, so that this saves much time."""
        wanted = [position for position in positions if position not in self._batches]
        found = batches_of(self.tables, wanted)
        self._batches.update({position: found.get(position) for position in wanted})

    def batch(self, position: Position) -> Row | None:
        """Return the batch that holds a record, with the marker that decides it; None: the log is not stored."""
        self.load_batches([position])
        return self._batches[position]

    def marker_ns(self, batch: Row) -> int | None:
        """Return when the marker that decides a batch was written. None: there is none."""
        return self.tables.at_ns(batch["marker_ms"])

    def written_ns(self, batch: Row, begin_ns: int | None = None) -> tuple[int | None, bool]:
        """Return when the records of a batch were sent, and whether this time is adjusted.

        A producer sets the time stamp. It may be that of an old input, or of a wrong clock. But no record is sent
        before its transaction began, or after the marker above it was written. Without a transaction, it was written
        after all records below it in its log.

        Args:
            batch: the batch
            begin_ns: when its operation began. None: when its transaction began, by the transaction log
        """
        stamp_ns = self.tables.at_ns(batch["max_timestamp_ms"])
        if stamp_ns is None:
            return None, False
        if begin_ns is None and self.by_logs:
            own = self.transaction_of(batch) if batch["transactional"] else None
            begin_ns = self._not_before_ns(batch) if own is None else own.get("begin_ns")
        marker_ns = self.marker_ns(batch)
        at_ns = max(stamp_ns, stamp_ns if begin_ns is None else begin_ns)
        at_ns = at_ns if marker_ns is None else min(at_ns, marker_ns)
        return at_ns, abs(at_ns - stamp_ns) >= ADJUSTED_NS

    def _not_before_ns(self, batch: Row) -> int | None:
        """Return the latest time stamp in the log up to a batch."""
        tp = batch["tp"]
        if tp not in self._logs:
            self._logs.update(partition_logs(self.tables, [tp]))
        log = self._logs.get(tp)
        if log is None:
            return None
        row = int(np.searchsorted(log.base, batch["base_offset"], side="right")) - 1
        return int(log.time_ns[row]) if row >= 0 else None

    def transaction_of(self, batch: Row) -> Row | None:
        """Return the transaction of the timeline that wrote a batch: the last one that began before its marker."""
        own_id = self.ids_by_producer.get(batch["producer_id"])
        if own_id is None:
            return None
        marker_ns = self.marker_ns(batch)
        rows = [
            row
            for row in self.transactions_of(own_id)
            if row["begin_ns"] is not None and (marker_ns is None or row["begin_ns"] <= marker_ns + TICK_NS)
        ]
        return rows[-1] if rows else None

    def time_of(self, position: Position) -> int | None:
        """Return the time of a record or a marker in the log of its partition. None: the log is not stored."""
        batch = self.batch(position)
        if batch is not None:
            return self.written_ns(batch)[0]
        tp, offset = position
        rows = self.tables.rows("batches", tp=[tp], base_offset=[offset], leader=[True])
        return self.tables.at_ns(rows[0]["max_timestamp_ms"]) if rows else None

    def markers_ns(self, tp: int, producer_id: int) -> list[int]:
        """Return when the markers of a producer were written to a partition."""
        rows = self.tables.rows("batches", tp=[tp], producer_id=[producer_id], leader=[True], control=[True])
        times_ns = (self.tables.at_ns(row["max_timestamp_ms"]) for row in rows)
        return [time_ns for time_ns in times_ns if time_ns is not None]

    @cached_property
    def _offset_commits(self) -> pa.Table | None:
        return self.tables.table("offsets") if self.tables.exists("offsets") else None

    def offset_commits(self, tps: Collection[int]) -> list[dict[str, Any]]:
        """Return the offset commits for these partitions, in the order of the log."""
        table = self._offset_commits
        if table is None or not tps:
            return []
        rows = table.filter(pc.is_in(table["tp"], value_set=pa.array(list(tps), pa.int32()))).to_pylist()
        return sorted(rows, key=lambda row: (row["log_tp"], row["log_offset"]))

    @cached_property
    def log_lines(self) -> LogLines:
        """The warnings and errors in the logs of brokers and programs, without secrets."""
        t = self.tables
        if t.wall_ms_at_zero is None:
            return LogLines()
        options = t.settings.get("options")
        secrets = known_secrets(t.folder, options if isinstance(options, Mapping) else {}, {})
        return LogLines(*read_logs(t.folder, t.wall_ms_at_zero, secrets))

    @property
    def removals(self) -> list[Removal]:
        """The members that groups removed, from the brokers' logs, in order of time."""
        return self._coordinator_lines[0]

    @property
    def skipped_markers(self) -> list[SkippedMarker]:
        """The markers that brokers logged that they do not write, in order of time."""
        return self._coordinator_lines[1]

    @cached_property
    def _coordinator_lines(self) -> tuple[list[Removal], list[SkippedMarker]]:
        return coordinator_lines(self.tables)

    # The journals

    def operations_of(self, transactional_id: str) -> list[dict[str, Any]]:
        """Return the operations of a transactional id in the order of their calls."""
        if transactional_id not in self._operations_by_id:
            rows = self.tables.rows("ops", transactional_id=[transactional_id])
            self._operations_by_id[transactional_id] = sorted(rows, key=lambda row: row["call_ns"])
        return self._operations_by_id[transactional_id]

    def operation_at(self, transactional_id: str, at_ns: int) -> Row | None:
        """Return the last operation of a transactional id that was called before a time."""
        earlier = [row for row in self.operations_of(transactional_id) if row["call_ns"] <= at_ns]
        return earlier[-1] if earlier else None

    def operations(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return the operations with these names."""
        if not names or not self.tables.exists("ops"):
            return {}
        return {row["name"]: row for row in self.tables.rows("ops", name=set(names))}

    def taken(self, inputs: Sequence[Position], op: int | None) -> tuple[Position, ...]:
        """Return those of the inputs that an operation claims; all of them if its claims are not known."""
        table = self._claims
        claims = [] if table is None else table.filter(pc.equal(table["op"], op)).to_pylist()
        return tuple(
            (tp, offset)
            for tp, offset in inputs
            if not claims or any(row["tp"] == tp and row["first"] <= offset < row["next"] for row in claims)
        )

    def takers(self, inputs: Iterable[Position]) -> set[int]:
        """Return the operations that claim one of the inputs."""
        table, found = self._claims, set[int]()
        if table is None:
            return found
        for tp, offset in inputs:
            inside = pc.and_(pc.less_equal(table["first"], offset), pc.greater(table["next"], offset))
            found |= set(table.filter(pc.and_(pc.equal(table["tp"], tp), inside))["op"].to_pylist())
        return found

    @cached_property
    def _claims(self) -> pa.Table | None:
        return self.tables.table("claims") if self.tables.exists("claims") else None
