"""Many stored runs in one call: judged so many at a time as memory permits, the next opened while Spark is at work."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from fencepost.checks.evidence import size_bytes

CHUNK_BYTES = 48 * 1024 * 1024
"""Of Parquet, some five million rows: what one job judges. The shared tables of one chunk are in memory at a time."""
CHUNK_RUNS = 250
"""And so many runs at most: the driver has the facts of each, and Spark a task for each of their files."""

T = TypeVar("T")
U = TypeVar("U")


def split_into_chunks(
    folders: Sequence[Path], most_bytes: int = CHUNK_BYTES, most_runs: int = CHUNK_RUNS
) -> list[list[int]]:
    """The places of these runs in the sequence, in their order: as few parts as the bounds permit. A run that is larger
    than a chunk is one.
    """
    parts: list[list[int]] = []
    held = 0
    for n, folder in enumerate(folders):
        size = size_bytes(folder)
        if not parts or held + size > most_bytes or len(parts[-1]) >= most_runs:
            parts.append([])
            held = 0
        parts[-1].append(n)
        held += size
    return parts


def prefetched(parts: Sequence[T], act: Callable[[T], U]) -> Iterator[tuple[T, U]]:
    """Each part with what `act` gives for it, which is done for the next part meanwhile, and for no other."""
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        coming = [pool.submit(act, part) for part in parts[:1]]
        for n, part in enumerate(parts):
            done = coming.pop().result()
            coming += [pool.submit(act, following) for following in parts[n + 1 : n + 2]]
            yield part, done
