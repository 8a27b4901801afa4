"""Many runs in one call: how they are divided, and what is opened when."""

import threading
from pathlib import Path

import pytest

from fencepost.checks.chunks import prefetched, split_into_chunks
from harness.common.waiting import wait_for


def stored(tmp_path: Path, *sizes: int) -> list[Path]:
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
        ([11, 1, 11, 11], [[0], [1], [2], [3]]),  # one that is larger than a chunk stands alone
        ([0, 0, 0, 0, 0], [[0, 1, 2, 3], [4]]),  # more than so many are none either
    ],
)
def test_a_chunk_is_bounded_by_bytes_and_by_runs(
    tmp_path: Path, sizes: list[int], parts: list[list[int]]
) -> None:
    assert split_into_chunks(stored(tmp_path, *sizes), most_bytes=10, most_runs=4) == parts


def test_a_run_whose_folder_is_gone_is_in_a_chunk_too(tmp_path: Path) -> None:
    assert split_into_chunks([tmp_path / "gone"]) == [[0]]


def test_the_next_part_is_begun_while_one_is_at_work_and_no_other() -> None:
    begun: list[int] = []
    parts = prefetched([1, 2, 3], lambda part: begun.append(part) or part * 10)
    assert next(parts) == (1, 10)
    wait_for(lambda: begun == [1, 2], "the second to be begun", 10)
    assert list(parts) == [(2, 20), (3, 30)]
    assert begun == [1, 2, 3]


def test_what_a_part_raises_comes_when_it_is_its_turn() -> None:
    def act(part: int) -> int:
        if part == 2:
            raise OSError("gone")
        return part

    parts = prefetched([1, 2, 3], act)
    assert next(parts) == (1, 1)
    with pytest.raises(OSError, match="gone"):
        next(parts)
    assert not [one for one in threading.enumerate() if one.name.startswith("ahead")]
