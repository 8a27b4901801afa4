"""Split many stored runs into chunks that fit in memory. Open the next chunk while Spark checks the current one."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from fencepost.checks.evidence import size_bytes

CHUNK_BYTES = 48 * 1024 * 1024
"""Maximum Parquet size of a chunk, about five million rows. One job checks a chunk. Memory holds one chunk."""
CHUNK_RUNS = 250
"""Maximum runs of a chunk. The driver holds the metadata of each run, and Spark has a task for each of their files."""

T = TypeVar("T")
U = TypeVar("U")


def split_into_chunks(
    folders: Sequence[Path], most_bytes: int = CHUNK_BYTES, most_runs: int = CHUNK_RUNS
) -> list[list[int]]:
    """Split the runs into chunks, in their order. Returns indices of `folders`.

    A run that is larger than `most_bytes` is alone in its chunk.
    """
    chunks: list[list[int]] = []
    chunk_bytes = 0
    for n, folder in enumerate(folders):
        size = size_bytes(folder)
        if not chunks or chunk_bytes + size > most_bytes or len(chunks[-1]) >= most_runs:
            chunks.append([])
            chunk_bytes = 0
        chunks[-1].append(n)
        chunk_bytes += size
    return chunks


def prefetched(parts: Sequence[T], act: Callable[[T], U]) -> Iterator[tuple[T, U]]:
    """Yield each part with the result of `act`. Meanwhile a thread calls `act` for the next part only."""
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        pending = [pool.submit(act, part) for part in parts[:1]]
        for n, part in enumerate(parts):
            result = pending.pop().result()
            pending += [pool.submit(act, following) for following in parts[n + 1 : n + 2]]
            yield part, result
