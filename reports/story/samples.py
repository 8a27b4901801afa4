"""The rows of large tables that are drawn: those near faults and findings first, and of the others every nth row.

A table is read twice, batch by batch: once to count its rows, and once to take the rows to draw. The paths of records
lead from an input to the operation that took it, to the output, its marker and its first reader. They are drawn for the
records of findings, and for a sample of all others.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.common.wording import plural
from harness.model.vocabulary import WARM_UP
from harness.record.table_reader import Row, RunTables
from harness.record.timeline.load import state_times_ms
from harness.record.timeline.partition_offsets import deciding_markers
from harness.results.example import Example
from reports.story.model import TICK_NS
from reports.story.progress import batch_counts, in_groups
from reports.story.run import ADJUSTED_NS, Position, Story
from reports.story.subjects import positions_of

BY_IMPORTANCE = (2, 3, 4, 0, 1)
"""Indexes in `RecordPath.keys`: an operation is the first to leave out if the times of a path contradict each other."""
MOST_PATHS_OF_FINDINGS = 1_000
MOST_SAMPLED = 1_000
"""The largest numbers of outputs whose paths are drawn: those of findings, and others."""
MOST_POSITIONS = 100_000
MOST_INPUTS = 3
"""The largest number of inputs of one output whose paths are drawn."""
READERS = ("observer", "final")
"""The roles of readers. A record that an observer received is not looked for in the final reads."""
_OFFSETS = 40  # bits of an offset in one number for a position
MOST_BATCHES = 140_000
_OPS = (
    *("op", "name", "journal", "f", "outcome", "transactional_id", "call_ns", "commit_ns", "return_ns"),
    *("error", "fenced", "txn"),
)
_BATCHES = ("tp", "base_offset", "last_offset", "count", "producer_id", "transactional", "control", "marker")


@dataclass
class RecordPath:
    """The path of an output. `op` and `reader` are numbers of operations; None: not known."""

    output: Position
    input: Position | None = None
    op: int | None = None
    reader: int | None = None

    def keys(self, markers: Mapping[Position, Position]) -> list[Hashable]:
        """Return the keys of the slices on the path: input, operation, output, marker, reader.

        `markers` has the marker of each record.
        """
        records = (self.input, self.output, markers.get(self.output))
        source, output, marker = (at and ("record", *at) for at in records)
        op, reader = (number if number is None else ("op", number) for number in (self.op, self.reader))
        return [source, op, output, marker, reader]


@dataclass
class RecordPaths:
    """The paths to draw, and what must be drawn for them."""

    paths: list[RecordPath] = field(default_factory=list)
    total: int = 0  # outputs in the run

    @property
    def positions(self) -> set[Position]:
        """The records on the paths."""
        ends = ((path.output, path.input) for path in self.paths)
        return {position for pair in ends for position in pair if position is not None}

    @property
    def ops(self) -> set[int]:
        """The operations and polls on the paths."""
        ends = ((path.op, path.reader) for path in self.paths)
        return {op for pair in ends for op in pair if op is not None}


def positions_of_findings(story: Story, examples: Iterable[Example]) -> list[Position]:
    """Return the records and inputs of examples that are in partitions of the run, each once."""
    parts = (part for each in examples for part in (*each.records, *each.inputs, *each.positions))
    return [(tp, offset) for tp, offset in positions_of(story, parts, MOST_POSITIONS) if offset >= 0]


def outputs_of(story: Story, inputs: Collection[Position]) -> list[Position]:
    """Return the records that were sent for one of the inputs, or without journals those whose header names one."""
    t, wanted = story.tables, _numbers(inputs)
    found: list[Position] = []
    if not t.without_journals:
        for send in t.rows("sends", op=story.takers(inputs)):
            if send["offset"] is not None and any((i["tp"], i["offset"]) in inputs for i in send["inputs"]):
                found.append((send["tp"], send["offset"]))
        return found
    for batch in t.batches("records", ("tp", "offset", "inputs")) if t.exists("records") else ():
        rows = batch.filter(pa.array(_names_one_of(batch["inputs"], wanted)))
        found += zip(rows["tp"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    return found


def record_paths(story: Story, of_findings: Sequence[Position]) -> RecordPaths:
    """Return the paths of these records, and of a sample. Raises `UnreadableInput`."""
    t = story.tables
    chosen = _from_records(t, of_findings) if t.without_journals else _from_sends(t, of_findings)
    first: dict[tuple[Any, ...], RecordPath] = {}
    for path in chosen.paths:
        first.setdefault((path.input, path.output, path.op), path)
    chosen.paths = list(first.values())
    if chosen.paths and t.exists("polls"):
        readers = _first_readers(t, {path.output for path in chosen.paths})
        for path in chosen.paths:
            path.reader = readers.get(path.output)
    return chosen


def _from_sends(t: RunTables, of_findings: Sequence[Position]) -> RecordPaths:
    """Return the paths from journals: a send names its operation, its output and its inputs."""
    sends = _choose(t, "sends", ("op", "tp", "offset", "inputs"), of_findings)
    # A workload whose records have no inputs (`txn`) has paths that begin with the operation. Feeders have no paths.
    feeders = {row["journal"] for row in t.rows("journals", role=["feeder"])}
    fed = {row["op"] for row in t.rows("ops", op={row["op"] for row in sends.rows}, journal=feeders)}
    own = [row for row in sends.rows if row["op"] not in fed and row["offset"] is not None]
    return RecordPaths(
        [
            RecordPath((row["tp"], row["offset"]), source and (source["tp"], source["offset"]), row["op"])
            for row in own
            for source in row["inputs"][:MOST_INPUTS] or [None]
        ],
        sends.total,
    )


def _from_records(t: RunTables, of_findings: Sequence[Position]) -> RecordPaths:
    """Return the paths of a custom pipeline: an output has its inputs in a header, or joins them by its correlation
    key.
    """
    due = _expected(t, tp={tp for tp, _ in of_findings}, offset={offset for _, offset in of_findings})
    keys = {row["correlation_key"] for row in due if (row["tp"], row["offset"]) in set(of_findings)} - {None}
    columns = ("tp", "offset", "inputs", "correlation_key")
    records = _choose(t, "records", columns, of_findings, keys)
    sources: dict[tuple[str, str], list[Position]] = {}
    for row in _expected(t, correlation_key={row["correlation_key"] for row in records.rows} - {None}):
        sources.setdefault((row["correlation_key"], row["topic"]), []).append((row["tp"], row["offset"]))
    paths = []
    for row in records.rows:
        topic, _ = t.topic_partitions.get(row["tp"], ("", 0))
        inputs = [(source["tp"], source["offset"]) for source in row["inputs"]]
        inputs += sources.get((row["correlation_key"], topic), [])
        paths += [RecordPath((row["tp"], row["offset"]), source) for source in inputs[:MOST_INPUTS]]
    return RecordPaths(paths, records.total)


def _expected(t: RunTables, **wanted: Collection[object]) -> list[dict[str, Any]]:
    """Return the rows of `expected` in which each named column has one of the wanted values."""
    if not t.exists("expected") or not all(wanted.values()):
        return []
    return list(t.table("expected", ("tp", "offset", "topic", "correlation_key"), **wanted).to_pylist())


@dataclass
class _ChosenRows:
    """Rows of a table whose paths are drawn: those of findings first."""

    rows: list[dict[str, Any]]
    total: int  # rows from which they were chosen


def _choose(
    t: RunTables,
    table: str,
    columns: Sequence[str],
    of_findings: Sequence[Position],
    keys: Collection[str] = (),
) -> _ChosenRows:
    """Return the rows that concern a record of a finding or a correlation key, and a sample of the others.

    If some rows name inputs, only these are sampled.
    """
    wanted, values = _numbers(of_findings), pa.array(sorted(keys), pa.string())
    total = {False: 0, True: 0}  # by whether the rows name inputs
    for batch in t.batches(table, columns):
        naming = int(np.count_nonzero(_names_inputs(batch)))
        total[True] += naming
        total[False] += batch.num_rows - naming
    sampled = bool(total[True])
    every = max(1, -(-total[sampled] // MOST_SAMPLED))
    seen = 0
    first: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for batch in t.batches(table, columns):
        concerned = _concerns(batch, wanted)
        if keys:
            concerned |= pc.is_in(batch["correlation_key"], value_set=values).to_numpy(zero_copy_only=False)
        first += batch.filter(pa.array(concerned)).slice(0, MOST_PATHS_OF_FINDINGS - len(first)).to_pylist()
        candidates = np.flatnonzero(_names_inputs(batch) == sampled)
        chosen = candidates[(seen + np.arange(len(candidates))) % every == 0]
        seen += len(candidates)
        others += batch.take(pa.array(chosen[~concerned[chosen]])).to_pylist()
    return _ChosenRows([*first, *others], total[sampled])


def _names_inputs(batch: pa.RecordBatch) -> np.ndarray:
    named = pc.greater(pc.fill_null(pc.list_value_length(batch["inputs"]), 0), 0)
    if "correlation_key" in batch.schema.names:
        named = pc.or_(named, batch["correlation_key"].is_valid())
    return np.asarray(named.to_numpy(zero_copy_only=False))


def _concerns(batch: pa.RecordBatch, wanted: np.ndarray) -> np.ndarray:
    """Return for each row whether it, or one of its inputs, is wanted."""
    own = np.isin(_as_numbers(batch["tp"], batch["offset"]), wanted)
    return np.asarray(own | _names_one_of(batch["inputs"], wanted))


def _names_one_of(inputs: pa.Array, wanted: np.ndarray) -> np.ndarray:
    """Return for each row whether one of its inputs is wanted."""
    mask = np.zeros(len(inputs), bool)
    flat = pc.list_flatten(inputs)
    matches = np.isin(_as_numbers(pc.struct_field(flat, "tp"), pc.struct_field(flat, "offset")), wanted)
    mask[pc.list_parent_indices(inputs).to_numpy(zero_copy_only=False)[matches]] = True
    return mask


def _first_readers(t: RunTables, outputs: Collection[Position]) -> dict[Position, int]:
    """Return for each record the poll by which the first observer received it, or else the first final reader."""
    wanted, first = _numbers(outputs), dict[Position, tuple[int, int, int]]()
    for batch in t.batches("polls", ("op", "tp", "offset", "role", "return_ns")):
        rows = batch.filter(
            pc.and_(
                pa.array(np.isin(_as_numbers(batch["tp"], batch["offset"]), wanted)),
                pc.is_in(batch["role"], value_set=pa.array(READERS)),
            )
        )
        for row in rows.to_pylist():
            at, order = (row["tp"], row["offset"]), (READERS.index(row["role"]), row["return_ns"], row["op"])
            first[at] = min(order, first.get(at, order))
    return {at: op for at, (_, _, op) in first.items()}


def _numbers(positions: Iterable[Position]) -> np.ndarray:
    return np.array(sorted({(tp << _OFFSETS) + offset for tp, offset in positions}), np.int64)


def _as_numbers(tp: Any, offset: Any) -> np.ndarray:
    """Return one number for each position. -1: a null."""
    number = pc.add(pc.shift_left(pc.cast(tp, pa.int64()), _OFFSETS), offset)
    return np.asarray(pc.fill_null(number, -1).to_numpy(zero_copy_only=False))


@dataclass
class Drawn:
    """How many rows of a kind are in the trace, and how many there are."""

    drawn: int = 0
    total: int = 0
    reason: str = ""
    """Why rows are left out, if the limit is not the only reason."""


class Intervals:
    """Intervals of time, in nanoseconds since the run began. They may overlap."""

    def __init__(self, intervals: Iterable[tuple[float, float]] = ()) -> None:
        merged: list[list[float]] = []
        for begin, end in sorted(intervals):
            if merged and begin <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        self._begins = np.array([begin for begin, _ in merged])
        self._ends = np.array([end for _, end in merged])

    def contain(self, times_ns: np.ndarray) -> np.ndarray:
        """Return for each time whether it is in one of the intervals."""
        if not len(self._begins):
            return np.zeros(len(times_ns), bool)
        before = np.searchsorted(self._begins, times_ns, side="right") - 1
        return (before >= 0) & (times_ns <= self._ends[np.maximum(before, 0)])


@dataclass
class Sampler:
    """Chooses at most about `most` rows. Count all rows first, then ask for the rows to keep in the same order."""

    most: int
    near: Intervals = field(default_factory=Intervals)
    total: int = 0
    kept: int = 0
    _near_total: int = 0
    _seen: list[int] = field(default_factory=lambda: [0, 0])  # others, near

    def count(self, times_ns: np.ndarray) -> None:
        """Count the rows of a batch."""
        self.total += len(times_ns)
        self._near_total += int(np.count_nonzero(self.near.contain(times_ns)))

    def keep(self, times_ns: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        """Return which rows of the next batch to draw: those that `wanted` names, and those of the sample."""
        near = self.near.contain(times_ns)
        mask = np.zeros(len(near), bool) if wanted is None else wanted.copy()
        for group, is_in in ((0, ~near), (1, near)):
            every = self._every(group)
            if every:
                mask[is_in] |= (self._seen[group] + np.arange(np.count_nonzero(is_in))) % every == 0
            self._seen[group] += int(np.count_nonzero(is_in))
        self.kept += int(np.count_nonzero(mask))
        return mask

    def _every(self, group: int) -> int:
        """Return n if every nth row of a group is drawn. 0: none is drawn."""
        if group:
            count, room = self._near_total, self.most
        else:
            count, room = self.total - self._near_total, max(0, self.most - self._near_total)
        return -(-count // room) if room else 0


def sample(
    read: Callable[[], Iterator[pa.Table]],
    time_column: str,
    sampler: Sampler,
    wanted: Callable[[pa.Table], np.ndarray] = lambda table: np.zeros(len(table), bool),
) -> pa.Table | None:
    """Return the rows to draw. None: there are no rows.

    Args:
        read: reads the table, part by part; it is called twice
        time_column: the column by which rows are near to a fault or a finding
        sampler: chooses the rows
        wanted: which rows of a part to keep in any case
    """
    for part in read():
        sampler.count(_times(part, time_column))
    parts = [part.filter(pa.array(sampler.keep(_times(part, time_column), wanted(part)))) for part in read()]
    return pa.concat_tables(parts) if parts else None


def _times(part: pa.Table, column: str) -> np.ndarray:
    return np.asarray(part[column].to_numpy(zero_copy_only=False), float)


def journals_by_role(story: Story, *roles: str) -> dict[str, str]:
    """Return the role of each process that wrote a journal, if it has one of these roles."""
    return {row["journal"]: row["role"] for row in story.tables.rows("journals", role=roles)}


def sample_operations(
    story: Story, journals: Collection[str], most: int, near: Intervals, wanted: Collection[int]
) -> tuple[dict[str, list[Row]], Drawn]:
    """Return the operations to draw, by journal, in the order of their calls."""
    sampler = Sampler(most, near)
    names, numbers = pa.array(sorted(journals), pa.string()), pa.array(sorted(wanted), pa.int64())

    def read() -> Iterator[pa.Table]:
        for batch in story.tables.batches("ops", _OPS):
            yield pa.Table.from_batches([batch]).filter(pc.is_in(batch["journal"], value_set=names))

    def is_wanted(part: pa.Table) -> np.ndarray:
        return np.asarray(pc.is_in(part["op"], value_set=numbers).to_numpy(zero_copy_only=False))

    kept = sample(read, "call_ns", sampler, is_wanted)
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in [] if kept is None else kept.sort_by("call_ns").to_pylist():
        rows[row["journal"]].append(row)
    return rows, Drawn(sampler.kept, sampler.total)


def completions(story: Story) -> pa.Table:
    """Return the coordinators' parts of transactions: `transactional_id`, `state`, `prepared_ns`, `completed_ns`.

    `completed_ns` is null if the transaction log has no Complete record after the Prepare record.
    """
    t = story.tables
    states = t.table("transactions", ("transactional_id", "log_tp", "log_offset", "state", "update_ms"))
    own = pc.fill_null(pc.invert(pc.starts_with(states["transactional_id"], WARM_UP)), False)
    states = states.filter(pc.and_(own, states["update_ms"].is_valid()))
    states = states.sort_by([(name, "ascending") for name in ("transactional_id", "log_tp", "log_offset")])
    ids, state = states["transactional_id"].to_pylist(), states["state"].to_pylist()
    times_ms = state_times_ms(t, states).to_numpy()
    times_ns = (times_ms - (t.wall_ms_at_zero or 0.0)) * 1e6
    rows = []
    for n, name in enumerate(state):
        if name in ("PrepareCommit", "PrepareAbort"):
            after = n + 1
            done = after < len(state) and ids[after] == ids[n] and state[after].startswith("Complete")
            rows.append((ids[n], name, int(times_ns[n]), int(times_ns[after]) if done else None))
    names = ("transactional_id", "state", "prepared_ns", "completed_ns")
    kinds = (pa.string(), pa.string(), pa.int64(), pa.int64())
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table(
        {name: pa.array(column, kind) for name, kind, column in zip(names, kinds, columns, strict=True)}
    )


def records_by_poll(story: Story, ops: Sequence[int]) -> Mapping[int, int]:
    """Return how many records these polls returned. A poll without rows is left out."""
    t = story.tables
    if not ops or not t.exists("polls"):
        return {}
    numbers = np.array(sorted(ops))
    counts = np.zeros(len(numbers), np.int64)
    for batch in t.batches("polls", ("op",)):
        op = batch["op"].to_numpy()
        at = np.minimum(np.searchsorted(numbers, op), len(numbers) - 1)
        counts += np.bincount(at[numbers[at] == op], minlength=len(numbers))
    return {int(op): int(count) for op, count in zip(numbers, counts, strict=True) if count}


class PartitionSample:
    """Chooses batches and markers, as the leaders of partitions stored them.

    Batches whose time is not in the run are left out.
    """

    def __init__(self, story: Story, near: "Intervals", end_ns: float) -> None:
        self._story = story
        self._sampler = Sampler(MOST_BATCHES, near)
        self._end_ns = end_ns + 1e9
        self._outside = 0
        self.markers: dict[Position, Position] = {}
        """By position of a wanted record: the position of the marker that decided it."""

    @property
    def drawn(self) -> "Drawn":
        """How many batches were chosen. Only valid after `rows`."""
        reason = ""
        if self._outside:
            reason = f"the time stamps of {plural(self._outside, 'batch', 'batches')} are outside the run"
        return Drawn(self._sampler.kept, self._sampler.total, reason)

    def rows(self, wanted: Collection[Position]) -> Iterator[tuple[int, pa.Table]]:
        """Yield for each partition its batches and markers in the order of their times, `time_ns` and `adjusted`.

        Batches with a wanted record, and their markers, are chosen in any case.
        """
        t = self._story.tables
        for batch in t.batches("batches", ("leader", "max_timestamp_ms")):
            self._sampler.count(self._time_ns(batch.filter(batch["leader"])["max_timestamp_ms"]))
        sizes = batch_counts(self._story)
        by_tp: dict[int, list[int]] = {}
        for tp, offset in sorted(wanted):
            by_tp.setdefault(tp, []).append(offset)
        for tps in in_groups(sorted(sizes, key=self._order), sizes):
            kept = self._choose(tps, by_tp)
            for tp in tps:
                rows = kept.filter(pc.equal(kept["tp"], tp))
                if len(rows):
                    yield tp, rows.sort_by([("time_ns", "ascending"), ("base_offset", "ascending")])

    def _order(self, tp: int) -> tuple[bool, str, int]:
        topic, number = self._story.tables.topic_partitions.get(tp, ("", tp))
        return topic.startswith("__"), topic, number

    def _time_ns(self, wall_ms: Any) -> np.ndarray:
        times = np.asarray(wall_ms.to_numpy(zero_copy_only=False), float)
        return (times - (self._story.tables.wall_ms_at_zero or 0.0)) * 1e6

    def _inside(self, time_ns: np.ndarray) -> np.ndarray:
        return (time_ns >= 0) & (time_ns < self._end_ns)

    def _choose(self, tps: Sequence[int], wanted: Mapping[int, Sequence[int]]) -> pa.Table:
        t = self._story.tables
        data = deciding_markers(t, tps)
        data = data.set_column(
            data.schema.get_field_index("control"), "control", pa.array([False] * len(data))
        )
        columns = (*_BATCHES, "max_timestamp_ms")
        markers = t.table("batches", columns, leader=[True], control=[True], tp=tps)
        nothing = pa.nulls(len(markers), pa.int64())
        markers = markers.append_column("marker_offset", nothing).append_column("marker_ms", nothing)
        names = (*columns, "marker_offset", "marker_ms")
        table = pa.concat_tables([data.select(names), markers.select(names)], promote_options="permissive")
        stamp_ns = self._time_ns(table["max_timestamp_ms"])
        time_ns = self._adjusted(table, stamp_ns)
        table = table.append_column("time_ns", pa.array(time_ns.astype(np.int64)))
        table = table.append_column("adjusted", pa.array(np.abs(time_ns - stamp_ns) >= ADJUSTED_NS))
        inside = self._inside(time_ns)
        self._outside += int(np.count_nonzero(~inside))
        table, time_ns = table.filter(pa.array(inside)), time_ns[inside]
        return table.filter(pa.array(self._sampler.keep(time_ns, self._has_wanted(table, wanted))))

    def _adjusted(self, table: pa.Table, stamp_ns: np.ndarray) -> np.ndarray:
        """Return the times of batches as `Story.written_ns` defines them."""
        marker_ns = self._time_ns(table["marker_ms"])
        begins_ns = self._begins_ns(table, marker_ns)
        if not self._story.by_logs:
            # A journal says when the record was sent, which may be long before the transaction that its marker ended.
            begins_ns = np.where(self._inside(stamp_ns), stamp_ns, begins_ns)
        return np.asarray(np.fmin(np.fmax(stamp_ns, begins_ns), marker_ns))

    @cached_property
    def _begins_by_id(self) -> dict[str, np.ndarray]:
        """By transactional id: when its transactions began, in order."""
        table = self._story.transactions.select(["transactional_id", "begin_ns"]).drop_null()
        if not len(table):
            return {}
        table = table.sort_by([("transactional_id", "ascending"), ("begin_ns", "ascending")])
        begins_ns = table["begin_ns"].to_numpy().astype(np.float64)
        by_id = table.group_by("transactional_id", use_threads=False).aggregate([([], "count_all")])
        borders = np.cumsum(by_id["count_all"].to_numpy())[:-1]
        return dict(zip(by_id["transactional_id"].to_pylist(), np.split(begins_ns, borders), strict=True))

    def _begins_ns(self, table: pa.Table, marker_ns: np.ndarray) -> np.ndarray:
        """Return when the transactions of batches began. NaN: not known, or in no transaction."""
        begins_ns = np.full(len(table), np.nan)
        producer = table["producer_id"].to_numpy()
        in_transaction = table["transactional"].to_numpy() & ~table["control"].to_numpy(zero_copy_only=False)
        for number in np.unique(producer[in_transaction]).tolist():
            known_ns = self._begins_by_id.get(self._story.ids_by_producer.get(number, ""), np.empty(0))
            own = np.flatnonzero(in_transaction & (producer == number))
            until_ns = np.where(np.isnan(marker_ns[own]), np.inf, marker_ns[own] + TICK_NS)
            last = np.searchsorted(known_ns, until_ns, side="right") - 1
            begins_ns[own[last >= 0]] = known_ns[last[last >= 0]]
        return begins_ns

    def _has_wanted(self, table: pa.Table, wanted: Mapping[int, Sequence[int]]) -> np.ndarray:
        """Return which rows have a wanted record, or decide one."""
        tp, base, last = (table[name].to_numpy() for name in ("tp", "base_offset", "last_offset"))
        control = table["control"].to_numpy(zero_copy_only=False)
        decided_by = pc.fill_null(table["marker_offset"], -1).to_numpy()
        mask = np.zeros(len(table), bool)
        for number, offsets in wanted.items():
            own = np.flatnonzero(tp == number)
            first = np.searchsorted(offsets, base[own])
            has = (np.searchsorted(offsets, last[own], side="right") > first) & ~control[own]
            deciding = set()
            for row, begin in zip(own[has], first[has], strict=True):
                if decided_by[row] >= 0:
                    deciding.add(int(decided_by[row]))
                    inside = (offset for offset in offsets[begin:] if offset <= last[row])
                    self.markers.update(
                        {(number, offset): (number, int(decided_by[row])) for offset in inside}
                    )
            mask[own[has]] = True
            mask[own[control[own] & np.isin(base[own], list(deciding))]] = True
        return mask
