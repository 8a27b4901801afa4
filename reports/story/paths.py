"""The paths of records: from an input to the operation that took it, to the output, its marker and its first reader.

Paths are drawn for the records of findings, and for a sample of all others.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.record.table_reader import RunTables
from harness.results.example import Example
from reports.story.run import Position, Story
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
    """Return the records whose header names one of the inputs, or that were sent for it by a process with a journal."""
    t, wanted = story.tables, _numbers(inputs)
    table = "records" if t.without_journals else "sends"
    found: list[Position] = []
    for batch in t.batches(table, ("tp", "offset", "inputs")) if t.exists(table) and len(wanted) else ():
        named = pa.array(_names_one_of(batch["inputs"], wanted))
        rows = batch.filter(pc.and_(named, batch["offset"].is_valid()))
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
