"""Read single rows of a stored run's tables, for a trace."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.common.errors import UnreadableInput
from harness.results.run_metadata import RunMetadata

Row = Mapping[str, Any]
TopicPartition = tuple[str, int]


class StoredTables:
    """The tables of a run. `wall_ms_at_zero` is the wall clock at the run's begin, to convert brokers' times."""

    def __init__(self, folder: Path, wall_ms_at_zero: float) -> None:
        self._folder = folder
        self._zero_ms = wall_ms_at_zero
        path = folder / "metadata.json"
        self.metadata = RunMetadata.load(path) if path.exists() else RunMetadata()

    def rows(self, table: str, **wanted: Collection[object]) -> list[dict[str, Any]]:
        """Return the rows in which each named column has one of the wanted values. No rows if the table does not
        exist.
        """
        found = self.table(table, None, **wanted)
        return [] if found is None else list(found.to_pylist())

    def table(
        self, table: str, columns: Sequence[str] | None, **wanted: Collection[object]
    ) -> pa.Table | None:
        """Return these rows as an Arrow table. None if the table does not exist or no value is wanted."""
        path = next((p for p in self._folder.glob(f"*/{table}.parquet")), None)
        filters = [(column, "in", list(values)) for column, values in wanted.items()]
        if path is None or any(not values for values in wanted.values()):
            return None
        try:
            return pq.read_table(path, columns=columns and list(columns), filters=filters or None)
        except (OSError, pa.ArrowException) as error:
            raise UnreadableInput(f"{path} cannot be read: {str(error).splitlines()[0]}") from error

    def existing_positions(self, table: str, positions: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return those of the positions (`tp`, offset) for which the table has a row."""
        tps, offsets = {tp for tp, _ in positions}, {offset for _, offset in positions}
        found = self.table(table, ["tp", "offset"], tp=tps, offset=offsets)
        rows = [] if found is None else found.to_pylist()
        return set(positions) & {(row["tp"], row["offset"]) for row in rows}

    def rows_with_prefix(self, table: str, column: str, prefix: str) -> list[dict[str, Any]]:
        """Return the rows whose column starts with `prefix`."""
        path = self._folder / "history" / f"{table}.parquet"
        try:
            return list(pq.read_table(path, filters=pc.starts_with(pc.field(column), prefix)).to_pylist())
        except (OSError, pa.ArrowException) as error:
            raise UnreadableInput(f"{path} cannot be read: {str(error).splitlines()[0]}") from error

    def operations_from(self, inputs: Collection[tuple[int, int]]) -> set[int]:
        """Return the operations that sent an output made from one of these inputs (`tp`, offset)."""
        found: set[int] = set()
        for tp in {tp for tp, _ in inputs}:
            wanted = pa.array([offset for where, offset in inputs if where == tp], pa.int64())
            of = self._sources
            here = pc.and_(pc.equal(of["tp"], tp), pc.is_in(of["offset"], value_set=wanted))
            found |= set(pc.unique(of["op"].filter(here)).to_pylist())
        return found

    @cached_property
    def _sources(self) -> Mapping[str, pa.Array]:
        """The inputs of all sends, one row each: `op`, `tp`, `offset`."""
        path = self._folder / "history" / "sends.parquet"
        try:
            sends = pq.read_table(path, columns=["op", "inputs"]).combine_chunks()
        except (OSError, pa.ArrowException) as error:
            raise UnreadableInput(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
        inputs = pc.list_flatten(sends["inputs"])
        return {
            "op": sends["op"].take(pc.list_parent_indices(sends["inputs"])),
            "tp": pc.struct_field(inputs, "tp"),
            "offset": pc.struct_field(inputs, "offset"),
        }

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
        """Whether no stage keeps a journal."""
        stages = self.rows("stages")
        return bool(stages) and all(row["journaled"] is False for row in stages)

    def name(self, tp: int) -> str:
        """Return for example `invoices/2`."""
        topic, number = self.topic_partitions.get(tp, ("unknown", tp))
        return f"{topic}/{number}"

    def at_ns(self, wall_ms: float | None) -> int | None:
        """Convert a broker's time to nanoseconds since the run's begin."""
        return None if wall_ms is None or wall_ms < 0 else round((wall_ms - self._zero_ms) * 1e6)

    def ranges(self, positions: Sequence[tuple[int, int]]) -> str:
        """Return partitions and offsets in short: `invoices/2 @ 55 to 57, shipments/0 @ 9`."""
        by_tp: dict[int, list[int]] = {}
        for tp, offset in positions:
            by_tp.setdefault(tp, []).append(offset)
        return ", ".join(f"{self.name(tp)} @ {spans(offsets)}" for tp, offsets in sorted(by_tp.items()))


def spans(offsets: Sequence[int]) -> str:
    """Return offsets in short: `55 to 57, 60`."""
    runs: list[list[int]] = []
    for offset in sorted(set(offsets)):
        if runs and offset == runs[-1][1] + 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs)
