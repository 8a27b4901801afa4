"""How many stored runs are split into chunks, and when each chunk is opened."""

import threading
from pathlib import Path

import pytest

from fencepost.checks.check import prefetched, split_into_chunks
from harness.common.waiting import wait_for


def stored_runs(tmp_path: Path, *sizes: int) -> list[Path]:
    folders = []
    for n, size in enumerate(sizes):
        table = tmp_path / str(n) / "history" / "ops.parquet"
        table.parent.mkdir(parents=True)
        table.write_bytes(b"x" * size)
        folders.append(tmp_path / str(n))
    return folders


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([], []),
        ([1], [[0]]),
        ([4, 6, 1], [[0, 1], [2]]),
        ([11, 1, 11, 11], [[0], [1], [2], [3]]),  # a run that is larger than a chunk is alone in its chunk
        ([0, 0, 0, 0, 0], [[0, 1, 2, 3], [4]]),  # at most four runs, even if they are small
    ],
)
def test_a_chunk_is_bounded_by_bytes_and_by_runs(
    tmp_path: Path, sizes: list[int], parts: list[list[int]]
) -> None:
    assert split_into_chunks(stored_runs(tmp_path, *sizes), most_bytes=10, most_runs=4) == parts


def test_a_run_without_a_folder_is_in_a_chunk_too(tmp_path: Path) -> None:
    assert split_into_chunks([tmp_path / "gone"]) == [[0]]


def test_only_the_next_part_is_computed_ahead() -> None:
    started: list[int] = []
    parts = prefetched([1, 2, 3], lambda part: started.append(part) or part * 10)
    assert next(parts) == (1, 10)
    wait_for(lambda: started == [1, 2], "the second part to start", 10)
    assert list(parts) == [(2, 20), (3, 30)]
    assert started == [1, 2, 3]


def test_an_exception_for_a_part_is_raised_at_its_turn() -> None:
    def act(part: int) -> int:
        if part == 2:
            raise OSError("gone")
        return part

    parts = prefetched([1, 2, 3], act)
    assert next(parts) == (1, 1)
    with pytest.raises(OSError, match="gone"):
        next(parts)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]
