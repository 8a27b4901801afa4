"""Reading the brokers' logs in a process of its own, beside the journals, where they are large.

The process numbers partitions by itself and knows no operation; both are put right once the journals are read. What
comes of it is the same, row by row, as if the logs had been read after the journals.
"""

import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.record.parquet_writer import CHUNK_ROWS, open_parquet
from harness.record.partitions import PartitionIds
from harness.record.schema import LOG
from harness.witness.capture import INTERNAL_TOPICS, ReplicaSource, TopicPartition, capture

LARGE_BYTES = 50_000_000
"""Of segments, all brokers together: from here on another process costs less than it saves."""
_NAMES = "partitions.json"

Finish = Callable[[PartitionIds, Callable[[str], int | None]], None]


@contextmanager
def capturing(
    run: int,
    sources: Sequence[ReplicaSource],
    leaders: Mapping[TopicPartition, int],
    out: Path,
    topics: Collection[str],
    high_watermarks: Mapping[TopicPartition, int],
) -> Iterator[Finish]:
    """Read the logs as `capture` does, beside what happens inside the `with`, which is to end with the call of what
    it was given. That one raises what `capture` raises.
    """

    def after(names: PartitionIds, op_of: Callable[[str], int | None]) -> None:
        capture(run, sources, names, leaders, op_of, out, topics, high_watermarks)

    if _bytes_of(sources, topics) < LARGE_BYTES:
        yield after
        return
    aside = out.with_name(f"{out.name}.unnumbered")
    shutil.rmtree(aside, ignore_errors=True)
    arguments = (run, sources, leaders, aside, topics, high_watermarks)
    process = multiprocessing.get_context("spawn").Process(target=_read, args=arguments, daemon=True)

    def finish(names: PartitionIds, op_of: Callable[[str], int | None]) -> None:
        process.join()
        if not (aside / _NAMES).exists():
            after(names, op_of)  # which then says what is wrong
            return
        mine = json.loads((aside / _NAMES).read_text())
        tps = pa.array([names.id(topic, partition) for topic, partition in mine], pa.int32())
        out.mkdir(parents=True, exist_ok=True)
        for table in LOG:
            _renumber(aside / f"{table}.parquet", out / f"{table}.parquet", tps, op_of)

    process.start()
    try:
        yield finish
    finally:
        process.kill()
        process.join()
        shutil.rmtree(aside, ignore_errors=True)


def _bytes_of(sources: Sequence[ReplicaSource], topics: Collection[str]) -> int:
    """How large the segments of these topics are."""
    patterns = [f"{topic}-*/*.log" for topic in (*topics, *INTERNAL_TOPICS)]
    return sum(
        path.stat().st_size
        for source in sources
        for pattern in patterns
        for path in source.data_dir.glob(pattern)
    )


def end_with_parent() -> None:
    """Have this process end as soon as the one that started it has, whatever ended that one."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()


def _read(
    run: int,
    sources: Sequence[ReplicaSource],
    leaders: Mapping[TopicPartition, int],
    aside: Path,
    topics: Collection[str],
    high_watermarks: Mapping[TopicPartition, int],
) -> None:
    """What the process does."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run
    names = PartitionIds()
    capture(run, sources, names, leaders, lambda _: None, aside, topics, high_watermarks)
    (aside / _NAMES).write_text(json.dumps([(topic, partition) for _, topic, partition in names]))


def _renumber(source: Path, target: Path, tps: pa.Array, op_of: Callable[[str], int | None]) -> None:
    """Write a table once more, with the run's numbers for partitions and operations."""
    with pq.ParquetFile(source) as file, open_parquet(target, file.schema_arrow) as sheet:
        for batch in file.iter_batches(CHUNK_ROWS):
            arrays = map(partial(_renumbered, batch, tps, op_of), batch.schema.names)
            sheet.write(pa.record_batch(list(arrays), schema=batch.schema))


def _renumbered(
    batch: pa.RecordBatch, tps: pa.Array, op_of: Callable[[str], int | None], name: str
) -> pa.Array:
    column = batch.column(name)
    if name in ("tp", "log_tp"):
        return tps.take(column)
    if name == "tps":
        starts = pc.subtract(column.offsets, column.offsets[0])
        return pa.ListArray.from_arrays(starts, tps.take(column.flatten()), type=column.type)
    if name == "op":
        said = batch.column("metadata").to_pylist()
        return pa.array([op_of(metadata) if metadata else None for metadata in said], pa.int64())
    return column
