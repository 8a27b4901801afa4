"""The rows of a task as arrays, the facts of each record that follow from them, and the jumps.

A *record* is a pair of key and value, a *position* a pair of key and offset. `RecordRows` has one element for each
record, and maps each row to its record. `checkers.histories.tables` has the rules.

A *jump* is a step at which a process did not go to the next record of a key. Few steps are jumps, so the checks that
examine jumps cost little.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from checkers.histories.arrays import begins, codes, order_by
from harness.record.history_form import OK, OPEN

NONE = -1


class OperationRows:
    """Micro-operations, with all rows of each key. `offset` is NONE if it is unknown or does not count."""

    def __init__(self, table: pa.Table) -> None:
        self.run = table["run"].to_numpy()
        self.key = table["key"].to_numpy()
        self.value = table["value"].to_numpy()
        self.op = table["op"].to_numpy()
        self.n = table["n"].to_numpy()
        self.process = table["process"].to_numpy()
        self.polled = table["polled"].to_numpy()
        self.outcome = table["outcome"].to_numpy()
        self.committed = table["committed"].to_numpy()
        offsets = table["offset"].fill_null(NONE).to_numpy()
        self.offset = np.where(self.committed, np.maximum(offsets, NONE), NONE)

    def __len__(self) -> int:
        return len(self.run)

    @cached_property
    def group(self) -> np.ndarray:
        """A number for each run and key."""
        return codes(self.key, self.run)

    @cached_property
    def sends(self) -> np.ndarray:
        """The rows that sent a record, by key, process and order."""
        return self._in_order(np.flatnonzero(~self.polled))

    @cached_property
    def polls(self) -> np.ndarray:
        """The rows that read a record, by key, process and order."""
        return self._in_order(np.flatnonzero(self.polled))

    def in_place_of_another(self, in_order: np.ndarray) -> np.ndarray:
        """Return the rows that have the same operation and `n` as the previous row."""
        rows, previous = in_order[1:], in_order[:-1]
        columns = (self.group, self.op, self.n)
        shared: np.ndarray = rows[np.all([column[rows] == column[previous] for column in columns], axis=0)]
        return shared

    def _in_order(self, steps: np.ndarray) -> np.ndarray:
        columns = (self.group, self.process, self.op, self.n)
        in_order: np.ndarray = steps[order_by(*(column[steps] for column in columns))]
        return in_order


@dataclass(frozen=True)
class RecordRows:
    """Arrays by record (see `checkers.external_tables.ExternalTables`); `of_row`, `rank`, `clash` and `own` are by
    row.
    """

    of_row: np.ndarray
    rank: np.ndarray  # rank of the row's offset in its key, from 1; 0: no offset
    clash: np.ndarray  # another value has the row's offset
    own: np.ndarray  # an operation read, as committed, a record that it had sent
    first: np.ndarray  # one row of each record
    lowest: np.ndarray  # ranks; 0: none
    highest: np.ndarray
    lowest_offset: np.ndarray  # NONE: unknown
    index: np.ndarray  # 0: none
    writer: np.ndarray  # NONE: not known
    writer_outcome: np.ndarray  # NONE: not known
    due: np.ndarray
    ok_read: np.ndarray
    ok_sent: np.ndarray
    bound: np.ndarray  # of its key; 0: no record of the key was ok-read

    def __len__(self) -> int:
        return len(self.first)


def make_records(rows: OperationRows) -> RecordRows:
    """Combine the rows of each record."""
    of_row = codes(rows.group, rows.value)
    count = int(of_row.max(initial=-1)) + 1
    first = np.zeros(count, np.int64)
    first[of_row[::-1]] = np.arange(len(rows))[::-1]
    rank, clash, in_log_order = _positions(rows, of_row)
    lowest, highest = np.zeros(count, np.int64), np.zeros(count, np.int64)
    highest[of_row[in_log_order]] = rank[in_log_order]  # if an index repeats, numpy keeps the last value
    lowest[of_row[in_log_order[::-1]]] = rank[in_log_order[::-1]]
    lowest_offset = np.full(count, NONE)
    lowest_offset[of_row[in_log_order[::-1]]] = rows.offset[in_log_order[::-1]]
    tainted = _any(count, of_row[clash])
    ok = rows.outcome == OK
    ok_read = _any(count, of_row[rows.polled & ok])
    writer_row = _writers(rows, of_row, count)
    written = writer_row != NONE
    group = rows.group[first]
    bound = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
    np.maximum.at(bound, group[ok_read], lowest[ok_read])
    return RecordRows(
        of_row=of_row,
        rank=rank,
        clash=clash,
        own=_reads_of_own_records(rows, of_row, count),
        first=first,
        lowest=lowest,
        highest=highest,
        lowest_offset=lowest_offset,
        index=np.where((lowest == highest) & ~tainted, lowest, 0),
        writer=np.where(written, rows.op[writer_row], NONE),
        writer_outcome=np.where(written, rows.outcome[writer_row], NONE),
        due=written & rows.committed[writer_row],
        ok_read=ok_read,
        ok_sent=_any(count, of_row[~rows.polled & ok]),
        bound=bound[group],
    )


def _any(count: int, marked: np.ndarray) -> np.ndarray:
    any_marked = np.zeros(count, bool)
    any_marked[marked] = True
    return any_marked


def _positions(rows: OperationRows, of_row: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `rank`, `clash`, and the rows with an offset in log order."""
    with_offset = np.flatnonzero(rows.offset != NONE)
    in_log_order = with_offset[order_by(rows.group[with_offset], rows.offset[with_offset])]
    group, record = rows.group[in_log_order], of_row[in_log_order]
    new_position = begins(group, rows.offset[in_log_order])
    position = np.cumsum(new_position) - 1
    starts = np.flatnonzero(new_position)
    # The number of the position minus that of the first position of its key, so gaps vanish.
    first_of_key = np.maximum.accumulate(np.where(begins(group), position, 0))
    rank = np.zeros(len(rows), np.int64)
    rank[in_log_order] = position - first_of_key + 1
    clash = np.zeros(len(rows), bool)
    if len(starts):
        several = np.minimum.reduceat(record, starts) != np.maximum.reduceat(record, starts)
        clash[in_log_order] = several[position]
    return rank, clash, in_log_order


def _writers(rows: OperationRows, of_row: np.ndarray, count: int) -> np.ndarray:
    """Return for each record the row of the last completion that sent it. An operation that never completed counts only
    if no completion sent the record.
    """
    done = (rows.outcome[rows.sends] != OPEN).astype(np.int64)
    in_order = rows.sends[order_by(done, rows.op[rows.sends])]
    writer = np.full(count, NONE)
    writer[of_row[in_order]] = in_order
    return writer


def _reads_of_own_records(rows: OperationRows, of_row: np.ndarray, count: int) -> np.ndarray:
    """Return for each row whether an operation that sent the record read it as a committed record."""
    read_committed = rows.polled & rows.committed
    senders = np.bincount(of_row[rows.sends], minlength=count)
    sender = np.full(count, NONE)
    sender[of_row[rows.sends]] = rows.op[rows.sends]
    own: np.ndarray = read_committed & (sender[of_row] == rows.op)
    several = np.flatnonzero((senders > 1)[of_row])
    if len(several):
        pair = codes(of_row[several], rows.op[several])
        sent = np.zeros(int(pair.max()) + 1, bool)
        sent[pair[~rows.polled[several]]] = True
        own[several] = read_committed[several] & sent[pair]
    return own


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
