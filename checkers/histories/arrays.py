"""Fast numbering and sorting of rows with numpy and Arrow."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

_MOST = 1 << 62


def codes(*columns: np.ndarray) -> np.ndarray:
    """Return a dense number from 0 for each row; rows that are equal in all columns have the same number."""
    numbered: np.ndarray | None = None
    for column in columns:
        numbers = pa.array(column).dictionary_encode().indices.to_numpy().astype(np.int64)
        if numbered is None:
            numbered = numbers
        elif not numbers.any():
            continue  # all values are equal
        else:
            both = numbered * (numbers.max() + 1) + numbers
            numbered = pa.array(both).dictionary_encode().indices.to_numpy().astype(np.int64)
    assert numbered is not None
    return numbered


def order_by(*columns: np.ndarray) -> np.ndarray:
    """Return the order that sorts the rows, the first column first. Equal rows can be in any order.

    Several columns are packed into one number if they fit, because numpy sorts that many times faster.
    """
    ranges = [(int(column.min()), int(column.max())) if len(column) else (0, 0) for column in columns]
    room = 1
    for low, high in ranges:
        room *= high - low + 1
    if room > _MOST:
        return np.lexsort(columns[::-1])
    packed = np.zeros(len(columns[0]), np.int64)
    for column, (low, high) in zip(columns, ranges, strict=True):
        packed *= high - low + 1
        packed += column.astype(np.int64, copy=False) - low
    return np.argsort(packed)


def begins(*columns: np.ndarray) -> np.ndarray:
    """Return where a row of sorted rows differs from the previous one; true for the first row."""
    first = np.ones(len(columns[0]), bool)
    if len(first):
        first[1:] = False
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def make_finder(numbers: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that finds the positions of values among these sorted numbers, which must not be empty;
    -1: not found.

    It uses a table if the numbers are close together, because that is many times faster.
    """
    low, high = int(numbers[0]), int(numbers[-1])
    table = None
    if high - low <= 16 * len(numbers) + 1_000_000:
        table = np.zeros(high - low + 1, np.int32)
        table[numbers - low] = np.arange(len(numbers), dtype=np.int32)

    def find(wanted: np.ndarray) -> np.ndarray:
        inside = np.clip(wanted, low, high)
        at: np.ndarray = (
            table[inside - low] if table is not None else np.searchsorted(numbers, inside).astype(np.int32)
        )
        return np.where(numbers[at] == wanted, at, np.int32(-1))

    return find
