"""The Parquet tables of a run folder, and the journal of its protocol proxy. Other modules of `reports` do not open
these files.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.common.documents import read_toml
from harness.common.errors import UnreadableInput
from harness.record.protocol_journal import JOURNAL, ProtocolJournal, read_journal
from harness.record.run_tables import PLAN
from harness.record.schema import LOG
from harness.results.run_metadata import RunMetadata

Row = Mapping[str, Any]
TopicPartition = tuple[str, int]
_BATCH_ROWS = 1 << 18
MOST_CHANGED_REQUESTS = 50
"""A report and a trace show at most this many of the requests that rules changed."""


class RunTables:
    """The tables of a run folder. All methods raise `UnreadableInput` for a table that is damaged.

    Args:
        folder: the folder of the run
        wall_ms_at_zero: the wall clock at the start of the run, to convert the times of brokers. None: as run.toml says
    """

    def __init__(self, folder: Path, wall_ms_at_zero: float | None = None) -> None:
        self.folder = folder
        self._given_zero_ms = wall_ms_at_zero

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """The tables of run.toml; empty if it does not exist or is damaged."""
        try:
            return read_toml(self.folder / PLAN)
        except (OSError, ValueError):
            return {}

    @cached_property
    def wall_ms_at_zero(self) -> float | None:
        """The wall clock at the start of the run. None: not known."""
        if self._given_zero_ms is not None:
            return self._given_zero_ms
        run = self.settings.get("run")
        start_ms = run.get("wall_ms_at_zero") if isinstance(run, Mapping) else None
        return float(start_ms) if isinstance(start_ms, int | float) else None

    def exists(self, table: str) -> bool:
        """Return whether the folder has the table."""
        return self._path(table).is_file()

    def rows(self, table: str, **wanted: Collection[object]) -> list[dict[str, Any]]:
        """Return the rows in which each named column has one of the wanted values.

        A table that does not exist has no rows.
        """
        if not self.exists(table) or any(not values for values in wanted.values()):
            return []
        return list(self.table(table, None, **wanted).to_pylist())

    def table(
        self, table: str, columns: Sequence[str] | None = None, **wanted: Collection[object]
    ) -> pa.Table:
        """Return these rows as an Arrow table. Raises `UnreadableInput` if the table or a column does not exist."""
        filters = [(column, "in", list(values)) for column, values in wanted.items()]
        return self._read(table, columns, filters or None)

    def rows_with_prefix(self, table: str, column: str, prefix: str) -> list[dict[str, Any]]:
        """Return the rows whose column starts with `prefix`."""
        return list(self._read(table, None, pc.starts_with(pc.field(column), prefix)).to_pylist())

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield a table that may be large. Raises `UnreadableInput` if the table or a column does not exist."""
        with self._open(table, columns) as file:
            yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns))

    def _path(self, table: str) -> Path:
        return self.folder / ("log" if table in LOG else "history") / f"{table}.parquet"

    def _read(self, table: str, columns: Sequence[str] | None, filters: Any) -> pa.Table:
        with self._open(table, columns):
            return pq.read_table(self._path(table), columns=columns and list(columns), filters=filters)

    @contextmanager
    def _open(self, table: str, columns: Sequence[str] | None) -> Iterator[pq.ParquetFile]:
        path = self._path(table)
        name = f"{path.parent.name}/{path.name}"
        try:
            with pq.ParquetFile(path) as file:
                absent = [column for column in columns or () if column not in file.schema_arrow.names]
                if absent:
                    raise UnreadableInput(f"{name} has no column {', '.join(absent)}")
                yield file
        except FileNotFoundError as error:
            raise UnreadableInput(f"{name} does not exist") from error
        except (OSError, pa.ArrowException) as error:
            first_line = str(error).partition("\n")[0]
            raise UnreadableInput(f"{name} cannot be read: {first_line}") from error

    @cached_property
    def protocol(self) -> ProtocolJournal:
        """The journal of the protocol proxy: the first requests that rules changed, and errors.

        Its times count from the start of the run. Without a journal it is empty. Raises `UnreadableInput`.
        """
        return self._read_protocol(None)

    def protocol_of(self, transactional_ids: Collection[str]) -> ProtocolJournal:
        """Return all requests of these ids in the journal of the protocol proxy. Raises `UnreadableInput`."""
        return self._read_protocol(transactional_ids)

    def _read_protocol(self, transactional_ids: Collection[str] | None) -> ProtocolJournal:
        path = self.folder / JOURNAL
        if not path.exists():
            return ProtocolJournal(missing=self.metadata.protocol_crc is not None)
        try:
            zero_ns = int(self.settings["run"]["monotonic_ns_at_zero"])
        except (ValueError, TypeError, KeyError) as error:
            raise UnreadableInput(
                f"{JOURNAL} is not shown: {PLAN} does not say when the run began ([run] monotonic_ns_at_zero), as in "
                "runs of older versions"
            ) from error
        try:
            return read_journal(path, zero_ns, transactional_ids)
        except OSError as error:
            raise UnreadableInput(f"{JOURNAL} cannot be read: {error.strerror}") from error

    def existing_positions(self, table: str, positions: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return the positions (`tp`, offset) for which the table has a row."""
        if not positions or not self.exists(table):
            return set()
        tps, offsets = {tp for tp, _ in positions}, {offset for _, offset in positions}
        rows = self.table(table, ["tp", "offset"], tp=tps, offset=offsets).to_pylist()
        return set(positions) & {(row["tp"], row["offset"]) for row in rows}

    def operations_from(self, inputs: Collection[tuple[int, int]]) -> set[int]:
        """Return the operations that sent an output made from one of these inputs (`tp`, offset)."""
        ops: set[int] = set()
        for tp in {tp for tp, _ in inputs}:
            wanted = pa.array([offset for input_tp, offset in inputs if input_tp == tp], pa.int64())
            sources = self._sources
            matches = pc.and_(pc.equal(sources["tp"], tp), pc.is_in(sources["offset"], value_set=wanted))
            ops |= set(pc.unique(sources["op"].filter(matches)).to_pylist())
        return ops

    @cached_property
    def _sources(self) -> Mapping[str, pa.Array]:
        """The inputs of all sends, one row each: `op`, `tp`, `offset`."""
        sends = self.table("sends", ["op", "inputs"]).combine_chunks()
        inputs = pc.list_flatten(sends["inputs"])
        return {
            "op": sends["op"].take(pc.list_parent_indices(sends["inputs"])),
            "tp": pc.struct_field(inputs, "tp"),
            "offset": pc.struct_field(inputs, "offset"),
        }

    @cached_property
    def metadata(self) -> RunMetadata:
        """The metadata of the run. Raises `UnreadableInput` if it is damaged."""
        path = self.folder / "metadata.json"
        return RunMetadata.load(path) if path.exists() else RunMetadata()

    @cached_property
    def topic_partitions(self) -> Mapping[int, TopicPartition]:
        """Topic and partition by partition number."""
        return {row["tp"]: (row["topic"], row["partition"]) for row in self.rows("partitions")}

    @cached_property
    def numbers(self) -> Mapping[TopicPartition, int]:
        """Partition number by topic and partition."""
        return {topic_partition: tp for tp, topic_partition in self.topic_partitions.items()}

    def partitions_of(self, topic: str) -> set[int]:
        """Return the partition numbers of a topic."""
        return {tp for tp, topic_partition in self.topic_partitions.items() if topic_partition[0] == topic}

    @cached_property
    def without_journals(self) -> bool:
        """True if no stage keeps a journal."""
        stages = self.rows("stages")
        return bool(stages) and all(row["journaled"] is False for row in stages)

    def topic(self, tp: int) -> str:
        """Return the topic of a partition."""
        return self.topic_partitions.get(tp, ("unknown", tp))[0]

    def name(self, tp: int) -> str:
        """Return for example `invoices/2`."""
        topic, number = self.topic_partitions.get(tp, ("unknown", tp))
        return f"{topic}/{number}"

    def at_ns(self, wall_ms: float | None) -> int | None:
        """Convert a broker's time to nanoseconds since the start of the run. None: it is not known."""
        zero_ms = self.wall_ms_at_zero
        return None if wall_ms is None or wall_ms < 0 or zero_ms is None else round((wall_ms - zero_ms) * 1e6)

    def ranges(self, positions: Sequence[tuple[int, int]]) -> str:
        """Return partitions and offsets in short: `invoices/2 @ 55 to 57, shipments/0 @ 9`."""
        by_tp: dict[int, list[int]] = {}
        for tp, offset in positions:
            by_tp.setdefault(tp, []).append(offset)
        return ", ".join(f"{self.name(tp)} @ {spans(offsets)}" for tp, offsets in sorted(by_tp.items()))


def span(first: int, following: int) -> str:
    """Return a range of offsets in short: `55 to 57`. Empty if it has none."""
    if following <= first:
        return ""
    return str(first) if following == first + 1 else f"{first} to {following - 1}"


def spans(offsets: Sequence[int]) -> str:
    """Return offsets in short: `55 to 57, 60`."""
    runs: list[list[int]] = []
    for offset in sorted(set(offsets)):
        if runs and offset == runs[-1][1] + 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    return ", ".join(span(first, last + 1) for first, last in runs)
