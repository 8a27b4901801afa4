"""The leaders' logs over time: markers of batches, and end, last stable offset and lag of partitions.

The time of a marker is the clock of the broker that wrote it. The time of a batch of data is the time stamp of its
records, which their producer set when they were sent. A time stamp that is not in the run, or is earlier than those
before it in the log, counts as the time before it.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.record.table_reader import RunTables

_BATCHES_BEFORE_MARKERS = (
    *("broker", "tp", "base_offset", "last_offset", "count", "producer_id", "epoch", "transactional"),
    *("control", "marker", "max_timestamp_ms", "coordinator_epoch"),
)
OFFSETS_TOPIC = "__consumer_offsets"
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_NEVER = int(np.iinfo(np.int64).max)
NO_TIMES: Integers = np.empty(0, np.int64)
SECOND_NS = 1_000_000_000
_BATCHES = (
    *("tp", "base_offset", "last_offset", "producer_id", "transactional", "control"),
    *("marker", "max_timestamp_ms"),
)
_OFFSETS = (*("group", "tp", "committed", "log_tp", "log_offset", "transactional", "timestamp_ms"),)


def deciding_markers(t: RunTables, tps: Collection[int]) -> pa.Table:
    """Return the batches of data in these partitions, in the order of their offsets.

    Its columns are those of `batches`, where `marker` and `coordinator_epoch` are those of the marker that decides the
    batch, and `marker_offset` and `marker_ms` of this marker: the first one of the same producer above the batch. All
    four are null if there is none, and for batches outside transactions. Raises `UnreadableInput`.
    """
    table = t.table("batches", _BATCHES_BEFORE_MARKERS, leader=[True], tp=tps).combine_chunks()
    table = table.sort_by([("tp", "ascending"), ("producer_id", "ascending"), ("base_offset", "ascending")])
    tp, producer, control = (
        table[name].to_numpy(zero_copy_only=False) for name in ("tp", "producer_id", "control")
    )
    n = len(table)
    index = np.where(control, np.arange(n), n)
    following = np.minimum.accumulate(index[::-1])[::-1] if n else index
    at = np.minimum(following, max(n - 1, 0))
    decided = (
        (following < n)
        & (tp[at] == tp)
        & (producer[at] == producer)
        & table["transactional"].to_numpy(zero_copy_only=False)
    )
    marker = pa.array(at, mask=~decided)
    with_marker = table.set_column(
        table.schema.get_field_index("marker"), "marker", pc.take(table["marker"], marker)
    )
    epoch = with_marker.schema.get_field_index("coordinator_epoch")
    with_marker = with_marker.set_column(
        epoch, "coordinator_epoch", pc.take(table["coordinator_epoch"], marker)
    )
    with_marker = with_marker.append_column("marker_offset", pc.take(table["base_offset"], marker))
    with_marker = with_marker.append_column("marker_ms", pc.take(table["max_timestamp_ms"], marker))
    data = with_marker.filter(pa.array(~control.astype(bool)))
    return data.sort_by([("tp", "ascending"), ("base_offset", "ascending")])


def batches_of(t: RunTables, positions: Iterable[tuple[int, int]]) -> dict[tuple[int, int], dict[str, Any]]:
    """Return for each position (`tp`, offset) the batch that holds it, with the marker that decides the batch.

    A position whose log is not stored is left out.
    """
    wanted: dict[int, set[int]] = {}
    for tp, offset in positions:
        wanted.setdefault(tp, set()).add(offset)
    if not wanted or not t.exists("batches"):
        return {}
    table = deciding_markers(t, wanted.keys())
    found = {}
    for tp, offsets in wanted.items():
        near = pc.and_(
            pc.equal(table["tp"], tp),
            pc.and_(
                pc.less_equal(table["base_offset"], max(offsets)),
                pc.greater_equal(table["last_offset"], min(offsets)),
            ),
        )
        rows = table.filter(near).to_pylist()
        for offset in offsets:
            row = next((row for row in rows if row["base_offset"] <= offset <= row["last_offset"]), None)
            if row is not None:
                found[tp, offset] = row
    return found


@dataclass(frozen=True)
class PartitionLog:
    """The log of one partition: one entry for each batch, in the order of their offsets. Times are nanoseconds."""

    base: Integers
    time_ns: Integers
    end: Integers  # the end of the log after the batch
    lso: Integers  # the last stable offset after the batch
    readable: Integers  # the last offset plus 1 that a read-committed consumer can receive after the batch
    data: Flags  # it is no marker
    committed: Flags  # it has data, and its transaction committed or it is in no transaction
    decided_ns: Integers  # of a committed batch: when its records became readable for the transaction alone

    @property
    def commits_ns(self) -> Integers:
        """When records of the partition were committed, in order. Repeated markers and markers without data are no
        commits.
        """
        return sorted_times(self.decided_ns[self.committed])

    @property
    def still(self) -> tuple[Integers, Integers]:
        """The times in which the LSO stood below the end: their starts and their ends. The last one may have no end:
        then it is the largest integer.
        """
        behind = self.lso < self.end
        before = np.concatenate(([False], behind[:-1])) & (self.lso == np.concatenate(([-1], self.lso[:-1])))
        begins = np.flatnonzero(behind & ~before)
        moved = np.flatnonzero(~behind | ~before)  # here the LSO is not where it was after the batch before
        following = np.searchsorted(moved, begins, side="right")
        times = np.append(self.time_ns[moved], _NEVER)
        return self.time_ns[begins], times[following]


def partition_logs(t: RunTables, tps: Iterable[int], end_s: float = math.inf) -> dict[int, PartitionLog]:
    """Return the logs of the leaders by partition. Partitions whose log is not stored or empty are left out.

    Args:
        t: The tables of the run.
        tps: The partitions.
        end_s: The end of the run: later time stamps are not in the run.

    Raises:
        UnreadableInput: The table does not exist or is damaged.
    """
    table = t.table("batches", _BATCHES, leader=[True], tp=list(tps)).combine_chunks()
    tp, base = (_numbers(table[name]) for name in ("tp", "base_offset"))
    if not np.all((np.diff(tp) != 0) | (np.diff(base) > 0)) or len(np.flatnonzero(np.diff(tp))) >= len(
        np.unique(tp)
    ):
        table = table.sort_by([("tp", "ascending"), ("base_offset", "ascending")])
        tp = _numbers(table["tp"])
    times_ns = _times_ns(t, table["max_timestamp_ms"])
    end_ns = _NEVER if math.isinf(end_s) else round(end_s * 1e9)
    columns = {
        "base": _numbers(table["base_offset"]),
        "last": _numbers(table["last_offset"]),
        "producer": _numbers(table["producer_id"]),
        "transactional": _flags(table["transactional"]),
        "control": _flags(table["control"]),
        "commits": _flags(pc.equal(table["marker"], "commit")),
        "time_ns": np.where((times_ns >= 0) & (times_ns <= end_ns), times_ns, 0),
    }
    borders = [0, *(np.flatnonzero(np.diff(tp)) + 1).tolist(), len(tp)]
    return {
        int(tp[low]): _partition_log(**{name: column[low:high] for name, column in columns.items()})
        for low, high in pairwise(borders)
        if low < high
    }


def _partition_log(
    base: Integers,
    last: Integers,
    producer: Integers,
    transactional: Flags,
    control: Flags,
    commits: Flags,
    time_ns: Integers,
) -> PartitionLog:
    n = len(base)
    rows = np.arange(n)
    time_ns = np.maximum.accumulate(time_ns)
    marker = _markers(producer, control)  # by batch, the row of the next marker of its producer; n: none
    opens = np.flatnonzero(transactional & ~control)
    # After row k, the LSO is the first batch up to k whose marker is behind k. The running maximum of the markers is
    # greater than k for the first time at this batch.
    first = np.searchsorted(np.maximum.accumulate(marker[opens]), rows, side="right")
    open_row = np.append(opens, n)[first]
    end = last + 1
    lso = np.where(open_row <= rows, base[np.minimum(open_row, n - 1)], end)
    decided = transactional & (marker < n)
    row = np.where(decided, np.minimum(marker, n - 1), rows)
    committed = ~control & (~transactional | (decided & commits[row]))
    ends = end[committed]
    below = np.searchsorted(ends, lso, side="right")
    readable = np.concatenate((base[:1], ends))[below]
    return PartitionLog(base, time_ns, end, lso, readable, ~control, committed, time_ns[row])


def _markers(producer: Integers, control: Flags) -> Integers:
    """Return for each batch the row of the first marker of its producer above it; the number of rows if none is."""
    n = len(producer)
    order = np.argsort(producer, kind="stable")
    sorted_producer = producer[order]
    markers = np.where(control[order], np.arange(n), n)
    following = np.minimum.accumulate(markers[::-1])[::-1]
    at = np.minimum(following, n - 1)
    found = (following < n) & (sorted_producer[at] == sorted_producer)
    marker = np.empty(n, np.int64)
    marker[order] = np.where(found, order[at], n)
    return marker


@dataclass(frozen=True)
class Positions:
    """The committed offsets of a group in one partition, in the order in which they took effect."""

    time_ns: Integers
    committed: Integers


def group_positions(t: RunTables, logs: Mapping[int, PartitionLog]) -> dict[tuple[str, int], Positions]:
    """Return the offset commits in force, by group and partition. An aborted or open commit is left out.

    Args:
        t: The tables of the run.
        logs: The logs of the partitions of `__consumer_offsets`. Commits in another log are left out if they are in a
            transaction, because it is not known whether it committed.

    Raises:
        UnreadableInput: The table does not exist or is damaged.
    """
    table = t.table("offsets", _OFFSETS)
    table = table.filter(table["committed"].is_valid())
    if not len(table):
        return {}
    log_tp, log_offset = (_numbers(table[name]) for name in ("log_tp", "log_offset"))
    order = np.argsort(log_offset, kind="stable")  # a group commits all its offsets in one log
    time_ns = np.maximum(_times_ns(t, table["timestamp_ms"]), 0)
    in_force = ~_flags(table["transactional"])
    for tp in np.unique(log_tp).tolist():
        log, rows = logs.get(tp), np.flatnonzero(log_tp == tp)
        if log is None:
            continue
        batch = np.maximum(np.searchsorted(log.base, log_offset[rows], side="right") - 1, 0)
        in_force[rows] = log.committed[batch]
        time_ns[rows] = np.where(log.committed[batch], log.decided_ns[batch], time_ns[rows])
    groups = pc.dictionary_encode(table["group"].combine_chunks())
    group, tp, committed = _numbers(groups.indices), _numbers(table["tp"]), _numbers(table["committed"])
    order = order[in_force[order]]
    key = group[order] * (int(tp.max()) + 1) + tp[order]
    order = order[np.argsort(key, kind="stable")]
    borders = [0, *(np.flatnonzero(np.diff(np.sort(key))) + 1).tolist(), len(order)]
    names = groups.dictionary.to_pylist()
    return {
        (names[group[rows[0]]], int(tp[rows[0]])): Positions(
            np.maximum.accumulate(time_ns[rows]), committed[rows]
        )
        for low, high in pairwise(borders)
        if len(rows := order[low:high])
    }


def lag_at(log: PartitionLog, positions: Positions, times_ns: Integers) -> Integers:
    """Return the lag of a group at each time: offsets that a read-committed consumer can receive and that the group has
    not committed. A marker or an aborted record behind the committed offset is no lag. Before its first commit, the
    group stands where the log ended when the run began.
    """
    row = np.searchsorted(log.time_ns, times_ns, side="right")
    readable = np.concatenate((log.base[:1], log.readable))[row]
    commit = np.searchsorted(positions.time_ns, times_ns, side="right")
    committed = np.concatenate(([_begin(log)], positions.committed))[commit]
    lags: Integers = np.maximum(readable - committed, 0)
    return lags


def greatest_lags(log: PartitionLog, positions: Positions, borders_ns: Integers) -> Integers:
    """Return the greatest lag of a group in each of the times between two borders, the first one included."""
    greatest = lag_at(log, positions, borders_ns[:-1])
    if len(greatest):
        times_ns = log.time_ns[slice(*np.searchsorted(log.time_ns, borders_ns[[0, -1]]))]
        span = np.searchsorted(borders_ns, times_ns, side="right") - 1
        np.maximum.at(greatest, span, lag_at(log, positions, times_ns))
    return greatest


def first_waiting(
    log: PartitionLog, positions: Positions, from_ns: int, to_ns: int
) -> tuple[int, int] | None:
    """Return since when an input waited, and its offset, if the group committed nothing between two times.

    None: no input waited.
    """
    commit = int(np.searchsorted(positions.time_ns, from_ns, side="right"))
    committed = int(positions.committed[commit - 1]) if commit else _begin(log)
    row = int(np.searchsorted(log.readable, committed, side="right"))
    if row == len(log.time_ns) or log.time_ns[row] >= to_ns:
        return None
    data = log.committed & (log.end > committed)
    return max(from_ns, int(log.time_ns[row])), max(committed, int(log.base[np.argmax(data)]))


def _begin(log: PartitionLog) -> int:
    """Return the end of the log when the run began."""
    earlier = int(np.searchsorted(log.time_ns, 0, side="right"))
    return int(log.readable[earlier - 1] if earlier else log.base[0])


def sorted_times(*times_ns: Integers) -> Integers:
    """Return the times in order, each once. Each array should be almost in order: then this is faster than `unique`."""
    times = np.concatenate([NO_TIMES, *times_ns])
    times.sort(kind="stable")
    first = np.ones(len(times), np.bool_)
    first[1:] = times[1:] != times[:-1]
    return times[first]


LSO_BY_SECOND = pa.schema(
    [("tp", pa.int32()), ("second", pa.int64()), ("end", pa.int64()), ("lso", pa.int64())]
)
"""End and last stable offset at the end of each second of the run in which one of them moved."""
LAG_BY_SECOND = pa.schema(
    [("group", pa.string()), ("tp", pa.int32()), ("second", pa.int64()), ("lag", pa.int64())]
)
"""The greatest lag of a group in a partition, in each second of the run in which the log or the group moved."""


def lso_by_second(logs: Mapping[int, PartitionLog]) -> pa.Table:
    """Return the table `LSO_BY_SECOND`."""

    def parts() -> Iterator[pa.Table]:
        for tp, log in logs.items():
            second = log.time_ns // SECOND_NS
            last = np.append(np.flatnonzero(np.diff(second)), len(second) - 1)
            columns = {"second": second[last], "end": log.end[last], "lso": log.lso[last]}
            yield pa.table({"tp": np.full(len(last), tp), **columns}).cast(LSO_BY_SECOND)

    return pa.concat_tables([LSO_BY_SECOND.empty_table(), *parts()])


def lag_by_second(
    logs: Mapping[int, PartitionLog], positions: Mapping[tuple[str, int], Positions]
) -> pa.Table:
    """Return the table `LAG_BY_SECOND`, for each group and partition in `positions`."""

    def parts() -> Iterator[pa.Table]:
        for (group, tp), own in positions.items():
            if tp not in logs:
                continue
            seconds = sorted_times(logs[tp].time_ns // SECOND_NS, own.time_ns // SECOND_NS)
            begins = sorted_times(seconds, seconds + 1) * SECOND_NS
            lags = greatest_lags(logs[tp], own, begins)[np.isin(begins[:-1] // SECOND_NS, seconds)]
            rows = len(seconds)
            columns = {"group": [group] * rows, "tp": np.full(rows, tp), "second": seconds, "lag": lags}
            yield pa.table(columns).cast(LAG_BY_SECOND)

    return pa.concat_tables([LAG_BY_SECOND.empty_table(), *parts()])


def _numbers(column: pa.ChunkedArray | pa.Array) -> Integers:
    numbers: Integers = np.asarray(pc.cast(pc.fill_null(column, -1), pa.int64()))
    return numbers


def _flags(column: pa.ChunkedArray) -> Flags:
    flags: Flags = np.asarray(pc.fill_null(column, False))
    return flags


def _times_ns(t: RunTables, wall_ms: pa.ChunkedArray) -> Integers:
    """Convert a column of times of brokers to nanoseconds since the start of the run. A null becomes negative."""
    times_ms = _numbers(wall_ms)
    times_ns: Integers = ((times_ms - (t.wall_ms_at_zero or 0.0)) * 1e6).astype(np.int64)
    return times_ns
