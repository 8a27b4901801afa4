"""The tracks of brokers: batches and markers of each partition, and the requests that a rule changed."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.model.vocabulary import WARM_UP
from harness.record.table_reader import RunTables
from harness.record.timeline.markers import deciding_markers
from harness.record.timeline.partition_offsets import (
    OFFSETS_TOPIC,
    SECOND_NS,
    group_positions,
    lag_at,
    partition_logs,
)
from harness.results.wording import plural
from reports.export.record_paths import Position
from reports.export.sampling import Drawn, Intervals, Sampler
from reports.export.tracks import Mark, Slice, Tracks, microseconds, text

PARTITIONS, REQUESTS = "partitions", "requests that a rule changed"
MOST_BATCHES = 140_000
ROWS_AT_ONCE = 1_000_000
"""Partitions are read together until they have this many batches."""
_FATES = {"commit": ("committed records", "good"), "abort": ("aborted records", "bad")}
_COLUMNS = ("tp", "base_offset", "last_offset", "count", "producer_id", "transactional", "control", "marker")
_MS_US = 1_000


class PartitionTracks:
    """Draws a thread for each partition: its batches and markers, as the leader stored them.

    Brokers and clients write times in whole milliseconds. So a batch is a slice of a millisecond. If a partition has
    several batches in one millisecond, they share it in the order of their offsets.
    """

    def __init__(self, t: RunTables, tracks: Tracks, near: Intervals, end_ns: float) -> None:
        self._t = t
        self._tracks = tracks
        self._sampler = Sampler(MOST_BATCHES, near)
        self._end_ns = end_ns + 1e9
        self._outside = 0
        self.markers: dict[Position, Position] = {}
        """By position of a wanted record: the position of the marker that decided it."""

    def draw(self, wanted: Collection[Position]) -> Drawn:
        """Draw all partitions. Batches with a wanted record, and their markers, are drawn in any case."""
        sizes: Counter[int] = Counter()
        for batch in self._t.batches("batches", ("leader", "tp", "max_timestamp_ms")):
            own = batch.filter(batch["leader"])
            time_ns = self._time_ns(own["max_timestamp_ms"])
            inside = self._inside(time_ns)
            self._sampler.count(time_ns[inside])
            self._outside += int(np.count_nonzero(~inside))
            numbers, counts = np.unique(own["tp"].to_numpy(), return_counts=True)
            sizes.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
        by_tp: dict[int, list[int]] = {}
        for tp, offset in sorted(wanted):
            by_tp.setdefault(tp, []).append(offset)
        for tps in _together(sorted(sizes, key=self._order), sizes):
            self._draw(tps, by_tp)
        reason = ""
        if self._outside:
            reason = f"the time stamps of {plural(self._outside, 'batch', 'batches')} are outside the run"
        return Drawn(self._sampler.kept, self._sampler.total + self._outside, reason)

    def _order(self, tp: int) -> tuple[bool, str, int]:
        topic, number = self._t.topic_partitions.get(tp, ("", tp))
        return topic.startswith("__"), topic, number

    def _time_ns(self, wall_ms: Any) -> np.ndarray:
        times = np.asarray(wall_ms.to_numpy(zero_copy_only=False), float)
        return (times - (self._t.wall_ms_at_zero or 0.0)) * 1e6

    def _inside(self, time_ns: np.ndarray) -> np.ndarray:
        return (time_ns >= 0) & (time_ns < self._end_ns)

    def _draw(self, tps: Sequence[int], wanted: Mapping[int, Sequence[int]]) -> None:
        data = deciding_markers(self._t, tps)
        data = data.set_column(
            data.schema.get_field_index("control"), "control", pa.array([False] * len(data))
        )
        columns = (*_COLUMNS, "max_timestamp_ms")
        markers = self._t.table("batches", columns, leader=[True], control=[True], tp=tps)
        nothing = pa.nulls(len(markers), pa.int64())
        markers = markers.append_column("marker_offset", nothing).append_column("marker_ms", nothing)
        names = (*columns, "marker_offset")
        table = pa.concat_tables([data.select(names), markers.select(names)], promote_options="permissive")
        time_ns = self._time_ns(table["max_timestamp_ms"])
        inside = self._inside(time_ns)
        table, time_ns = table.filter(pa.array(inside)), time_ns[inside]
        table = table.append_column("time_ns", pa.array(time_ns.astype(np.int64)))
        kept = table.filter(pa.array(self._sampler.keep(time_ns, self._has_wanted(table, wanted))))
        for tp in tps:
            rows = kept.filter(pc.equal(kept["tp"], tp)).sort_by(
                [("time_ns", "ascending"), ("base_offset", "ascending")]
            )
            if len(rows):
                self._tracks.draw(PARTITIONS, self._t.name(tp), _batches(tp, rows, wanted.get(tp, ())))

    def _has_wanted(self, table: pa.Table, wanted: Mapping[int, Sequence[int]]) -> np.ndarray:
        """Return which rows have a wanted record, or decide one."""
        tp, base, last = (table[name].to_numpy() for name in ("tp", "base_offset", "last_offset"))
        control = table["control"].to_numpy(zero_copy_only=False)
        decided_by = pc.fill_null(table["marker_offset"], -1).to_numpy()
        mask = np.zeros(len(table), bool)
        for number, offsets in wanted.items():
            own = np.flatnonzero(tp == number)
            first = np.searchsorted(offsets, base[own])
            has = (np.searchsorted(offsets, last[own], side="right") > first) & ~control[own]
            deciding = set()
            for row, begin in zip(own[has], first[has], strict=True):
                if decided_by[row] >= 0:
                    deciding.add(int(decided_by[row]))
                    inside = (offset for offset in offsets[begin:] if offset <= last[row])
                    self.markers.update(
                        {(number, offset): (number, int(decided_by[row])) for offset in inside}
                    )
            mask[own[has]] = True
            mask[own[control[own] & np.isin(base[own], list(deciding))]] = True
        return mask


def count_positions(t: RunTables, tracks: Tracks, end_ns: float) -> None:
    """Draw once a second the lag of each group, and how far the last stable offset is from the end of the log.

    The lag is the sum of the partitions. The distance is that of the partition where it is greatest. Raises
    `UnreadableInput`.
    """
    sizes: Counter[int] = Counter()
    for batch in t.batches("batches", ("leader", "tp")):
        numbers, counts = np.unique(batch.filter(batch["leader"])["tp"].to_numpy(), return_counts=True)
        sizes.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
    end_s = end_ns / 1e9
    offsets_logs = partition_logs(t, t.partitions_of(OFFSETS_TOPIC), end_s)
    positions = group_positions(t, offsets_logs) if t.exists("offsets") else {}
    seconds = np.arange(int(end_s) + 1)
    times_ns = seconds * SECOND_NS
    distance = np.zeros(len(seconds), np.int64)
    lags: dict[str, np.ndarray] = {}
    own = [tp for tp in sizes if not t.name(tp).startswith("__")]
    for tps in _together(own, sizes):
        logs = partition_logs(t, tps, end_s)
        for log in logs.values():
            behind = np.concatenate(([0], log.end - log.lso))
            distance = np.maximum(distance, behind[np.searchsorted(log.time_ns, times_ns, side="right")])
        for (group, tp), position in positions.items():
            if tp in logs and not group.startswith(WARM_UP):
                lag = lag_at(logs[tp], position, times_ns)
                lags[group] = lags.get(group, np.zeros(len(seconds), np.int64)) + lag
    counters = {f"lag of {text(group)}": lag for group, lag in sorted(lags.items())}
    for name, values in {**counters, "distance of the last stable offset": distance}.items():
        by_second = zip(seconds.tolist(), values.tolist(), strict=True)
        tracks.count(PARTITIONS, name, [(at_s * 1_000_000, {"records": value}) for at_s, value in by_second])


def draw_changed_requests(t: RunTables, tracks: Tracks) -> Drawn:
    """Draw a thread for each client: the requests that a rule changed, from sent to answered, with a mark where the
    request was delivered to the broker.
    """
    threads: dict[str, list[Slice]] = {}
    changed = t.protocol.under_way()
    for each in changed:
        request = each.request
        marks = (
            [] if request.delivered_ns is None else [Mark("delivered", microseconds(request.delivered_ns))]
        )
        args = {
            "request": each.title,
            "broker": request.broker or None,
            "answer": each.answer or "none",
            **{f"{number}. {step.kind}": str(step) for number, step in enumerate(each.steps(), 1)},
        }
        begin_us = microseconds(request.seen_ns)
        # A mark at the end would be outside the slice.
        end_us = max([microseconds(each.last_ns), *(mark.at_us + 1 for mark in marks)])
        name = f"{request.api}{f'({request.asked})' if request.asked else ''} {each.action}"
        threads.setdefault(", ".join(request.names) or request.link, []).append(
            Slice(name, begin_us, end_us, args, marks=marks)
        )
    for thread, slices in sorted(threads.items()):
        tracks.draw(REQUESTS, thread, slices)
    return Drawn(len(changed), len(changed) + t.protocol.more)


def _together(tps: Iterable[int], sizes: Mapping[int, int]) -> Iterator[list[int]]:
    """Yield partitions in groups that have at most about `ROWS_AT_ONCE` batches."""
    group: list[int] = []
    rows = 0
    for tp in tps:
        if group and rows + sizes[tp] > ROWS_AT_ONCE:
            yield group
            group, rows = [], 0
        group.append(tp)
        rows += sizes[tp]
    if group:
        yield group


def _batches(tp: int, rows: pa.Table, wanted: Sequence[int]) -> Iterator[Slice]:
    """Yield the slices of a partition. Its rows are in the order of their times and offsets."""
    _, at, sizes = np.unique(rows["max_timestamp_ms"].to_numpy(), return_inverse=True, return_counts=True)
    firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    wanted_from = np.searchsorted(wanted, rows["base_offset"].to_numpy())
    wanted_until = np.searchsorted(wanted, rows["last_offset"].to_numpy(), side="right")
    for n, row in enumerate(rows.to_pylist()):
        size, rank = int(sizes[at[n]]), n - int(firsts[at[n]])
        ms_us = microseconds(row["time_ns"])
        begin_us, end_us = ms_us + rank * _MS_US // size, ms_us + (rank + 1) * _MS_US // size
        offsets = [row["base_offset"]] if row["control"] else wanted[wanted_from[n] : wanted_until[n]]
        name, color = _name(row)
        args = {
            "offset": row["base_offset"],
            "last offset": row["last_offset"],
            "records": None if row["control"] else row["count"],
            "producer id": row["producer_id"] if row["producer_id"] >= 0 else None,
            "marker at": row["marker_offset"],
        }
        yield Slice(name, begin_us, end_us, args, color, [("record", tp, offset) for offset in offsets])


def _name(row: Mapping[str, Any]) -> tuple[str, str | None]:
    if row["control"]:
        return f"{row['marker']} marker", "grey"
    if not row["transactional"]:
        return "records outside transactions", None
    return _FATES.get(row["marker"], ("records of an open transaction", "terrible"))
