"""Jumps: where a process did not go through the records of a key one by one.

Few steps are jumps, so the checks that examine jumps cost little.
"""

import numpy as np

from checkers.external.by_key.arrays import begins
from checkers.external.by_key.rows import NONE, OperationRows, RecordRows


def find_jumps(
    rows: OperationRows, records: RecordRows, in_order: np.ndarray, moves: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the steps whose index is not one more than that of the previous step: their rows, the previous rows,
    and whether both are in one operation.

    The step before an operation's first step is the last step of the last operation of the process in this key for
    which `moves` is true. A step is no jump if one of the two records has no index. A send that skips records of other
    processes between two operations is no jump either.

    `in_order`: rows by key, process and order; `moves`: by row.
    """
    by_process = begins(rows.group[in_order], rows.process[in_order])
    number = np.arange(len(in_order))
    inside = ~(by_process | begins(rows.op[in_order]))
    moved = np.maximum.accumulate(np.where(moves[in_order], number, NONE))
    before = np.where(inside, number - 1, np.roll(moved, 1))
    start = np.maximum.accumulate(np.where(by_process, number, 0))
    index = records.index[records.of_row[in_order]]
    # A step of another process or key is not the previous step.
    has_previous = (before >= start) & (before < number)
    index_before = np.where(has_previous, index[before], 0)
    jumps = np.flatnonzero(
        (index > 0)
        & (index_before > 0)
        & (index != index_before + 1)
        & (inside | rows.polled[in_order] | (index <= index_before))
    )
    return in_order[jumps], in_order[before[jumps]], inside[jumps]


def writers_if_all_lost(
    group: np.ndarray, first: np.ndarray, last: np.ndarray, rows: OperationRows, records: RecordRows
) -> np.ndarray:
    """Return the writer of the record after `first`, if every record between `first` and `last` is lost; else NONE.

    A lost record must have committed, and no ok operation received it.

    `group`, `first`, `last`: by pair of records, the number of their key and their indexes.
    """
    lost = np.flatnonzero(records.due & ~records.ok_read & (records.index > 0))
    width = int(records.index.max(initial=0)) + 1
    place = rows.group[records.first[lost]].astype(np.int64) * width + records.index[lost]
    in_order = np.argsort(place)
    place = place[in_order]
    begin = np.searchsorted(place, group.astype(np.int64) * width + first, side="right")
    end = np.searchsorted(place, group.astype(np.int64) * width + last, side="left")
    all_lost = (last - first > 1) & (end - begin == last - first - 1)
    writers = np.full(len(group), NONE)
    writers[all_lost] = records.writer[lost[in_order[begin[all_lost]]]]
    return writers
