"""Panes of partitions: the lag of each group, and the distance of the last stable offset from the end of the log."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from harness.record.table_reader import RunTables
from harness.record.timeline.partition_offsets import (
    NO_TIMES,
    OFFSETS_TOPIC,
    SECOND_NS,
    Integers,
    PartitionLog,
    Positions,
    greatest_lags,
    group_positions,
    partition_logs,
)
from harness.results.wording import printable
from reports.axis.pane import Line, Pane

MOST_GROUPS = 6
STYLES = ("ok", "records", "fail", "band", "info", "abort")


def partition_panes(t: RunTables, at_s: range, end_s: float) -> list[Pane]:
    """Return the panes: values are the greatest ones between two points. Empty if the broker logs are not stored.

    Args:
        t: the tables of the run
        at_s: the points, in seconds since the start of the run
        end_s: the end of the run

    Raises:
        UnreadableInput: A table is damaged.
    """
    if not t.exists("batches") or t.wall_ms_at_zero is None:
        return []
    logs = partition_logs(t, t.topic_partitions, end_s)
    data = {tp: log for tp, log in logs.items() if not t.topic_partitions[tp][0].startswith("__")}
    panes = []
    if lines := list(_lags(t, logs, at_s)):
        panes.append(Pane("Lag of each group", "records", _edges(at_s), lines))
    if data:
        behind = [greatest(log.time_ns, log.end - log.lso, at_s) for log in data.values()]
        line = Line("worst partition", "info", _closed(np.max(behind, axis=0)))
        panes.append(
            Pane("Last stable offset behind the end, worst partition", "offsets", _edges(at_s), [line])
        )
    return panes


def _lags(t: RunTables, logs: Mapping[int, PartitionLog], at_s: range) -> Iterator[Line]:
    """Yield a curve for each group: the sum of the greatest lags in the partitions that its stages read."""
    stages = [row for row in t.rows("stages") if row["group"] is not None]
    if not stages or not t.exists("offsets"):
        return
    positions = group_positions(t, {tp: logs[tp] for tp in t.partitions_of(OFFSETS_TOPIC) if tp in logs})
    borders_ns = np.array(_edges(at_s), np.int64) * SECOND_NS
    by_group: dict[str, Integers] = {}
    for group in dict.fromkeys(row["group"] for row in stages):
        topics = {row["in_topic"] for row in stages if row["group"] == group}
        lags = [
            greatest_lags(logs[tp], positions.get((group, tp), Positions(NO_TIMES, NO_TIMES)), borders_ns)
            for topic in topics
            for tp in t.partitions_of(topic)
            if tp in logs
        ]
        if lags:
            by_group[group] = np.sum(lags, axis=0)
    worst_first = sorted(by_group, key=lambda group: -int(by_group[group].max()))[:MOST_GROUPS]
    for group, style in zip(worst_first, STYLES, strict=False):
        yield Line(printable(group, 40), style, _closed(by_group[group]))


def greatest(time_ns: Integers, values: Integers, at_s: range) -> Integers:
    """Return the greatest value between each point and the next one. A value holds until the next time; it is 0 before
    the first one.
    """
    points_ns = np.array(at_s, np.int64) * SECOND_NS
    at_points = np.concatenate((np.zeros(1, np.int64), values))[
        np.searchsorted(time_ns, points_ns, side="right")
    ]
    times_ns = np.concatenate((points_ns, time_ns))
    point = np.searchsorted(points_ns, times_ns, side="right") - 1
    greatest_values = at_points.copy()
    later = np.flatnonzero((point >= 0) & (times_ns < points_ns[-1] + at_s.step * SECOND_NS))
    np.maximum.at(greatest_values, point[later], np.concatenate((at_points, values))[later])
    return greatest_values


def _edges(at_s: range) -> list[int]:
    return [*at_s, at_s[-1] + at_s.step]


def _closed(values: Iterable[int]) -> list[float | None]:
    """Return the values as numbers of JSON, the last one twice, so that its step has an end."""
    numbers: list[float | None] = [int(value) for value in values]
    return [*numbers, numbers[-1]]
