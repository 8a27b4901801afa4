"""How inputs, groups and partitions went on: input rate, backlog, lag, and the distance of the last stable offset."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from harness.model.vocabulary import WARM_UP
from harness.record.timeline.partition_offsets import (
    NO_TIMES,
    OFFSETS_TOPIC,
    SECOND_NS,
    Integers,
    PartitionLog,
    Positions,
    greatest_lags,
    group_positions,
    lag_at,
    partition_logs,
)
from reports.story.run import Story

ROWS_AT_ONCE = 1_000_000
"""Partitions are read together until they have this many batches."""


@dataclass(frozen=True)
class RunFlow:
    """Values between two points of time each. Nothing is in it if the broker logs are not stored."""

    inputs: Integers | None = None  # records that were written to the input topics
    backlog: Integers | None = None
    """The greatest number of inputs that were written and that the committed offsets of the groups had not passed."""
    lags: Mapping[str, Integers] = field(default_factory=dict)  # by group, the greatest lag
    unstable: Integers | None = None
    """The greatest distance of the last stable offset from the end, in the worst partition."""


def progress(story: Story, at_s: range, end_s: float) -> RunFlow:
    """Return how the run went on between the points `at_s`, in seconds. Later times than `end_s` do not count.

    Raises `UnreadableInput` for a damaged table.
    """
    t = story.tables
    if not t.exists("batches") or t.wall_ms_at_zero is None:
        return RunFlow()
    logs = partition_logs(t, t.topic_partitions, end_s)
    data = {tp: log for tp, log in logs.items() if not t.topic(tp).startswith("__")}
    behind = [greatest(log.time_ns, log.end - log.lso, at_s) for log in data.values()]
    stages = t.rows("stages")
    borders_ns = np.array([*at_s, at_s[-1] + at_s.step], np.int64) * SECOND_NS
    input_tps = [tp for topic in _input_topics(story) for tp in sorted(t.partitions_of(topic)) if tp in logs]
    lags: dict[tuple[str, int], Integers] = {}
    groups = dict.fromkeys(row["group"] for row in stages if row["group"] is not None)
    if groups and t.exists("offsets"):
        positions = group_positions(t, {tp: logs[tp] for tp in t.partitions_of(OFFSETS_TOPIC) if tp in logs})
        for group in groups:
            for tp in _partitions_read(story, group):
                if tp in logs:
                    position = positions.get((group, tp), Positions(NO_TIMES, NO_TIMES))
                    lags[group, tp] = greatest_lags(logs[tp], position, borders_ns)
    of_inputs = [lag for (_, tp), lag in lags.items() if tp in input_tps]
    return RunFlow(
        sum((_written(logs[tp], borders_ns) for tp in input_tps), np.zeros(len(at_s), np.int64))
        if input_tps
        else None,
        np.sum(of_inputs, axis=0) if of_inputs else None,
        {
            group: np.sum(own, axis=0)
            for group in groups
            if (own := [lag for (name, _), lag in lags.items() if name == group])
        },
        np.max(behind, axis=0) if behind else None,
    )


def _input_topics(story: Story) -> list[str]:
    """Return the topics that stages read and that no stage writes."""
    workload = story.tables.settings.get("workload")
    stages = workload.get("stages") if isinstance(workload, Mapping) else None
    written = {
        topic
        for stage in (stages if isinstance(stages, list) else ())
        if isinstance(stage, Mapping)
        for topic in stage.get("writes") or ()
    }
    read = dict.fromkeys(row["in_topic"] for row in story.tables.rows("stages"))
    return [topic for topic in read if topic not in written]


def _partitions_read(story: Story, group: str) -> Iterator[int]:
    t = story.tables
    for topic in dict.fromkeys(row["in_topic"] for row in t.rows("stages", group=[group])):
        yield from t.partitions_of(topic)


def _written(log: PartitionLog, borders_ns: Integers) -> Integers:
    """Return how many records became readable between two borders each."""
    sizes, at_ns = (log.end - log.base)[log.committed], log.decided_ns[log.committed]
    order = np.argsort(at_ns, kind="stable")
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes[order])))
    written: Integers = np.diff(total[np.searchsorted(at_ns[order], borders_ns)])
    return written


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


def by_second(story: Story, end_s: float) -> tuple[dict[str, Integers], Integers]:
    """Return at the start of each second the lag of each group, and the distance of the last stable offset.

    The lag is the sum of the partitions. The distance is that of the partition where it is greatest. Raises
    `UnreadableInput`.
    """
    t = story.tables
    sizes = batch_counts(story)
    offsets_logs = partition_logs(t, t.partitions_of(OFFSETS_TOPIC), end_s)
    positions = group_positions(t, offsets_logs) if t.exists("offsets") else {}
    times_ns = np.arange(int(end_s) + 1) * SECOND_NS
    distance = np.zeros(len(times_ns), np.int64)
    lags: dict[str, Integers] = {}
    for tps in in_groups((tp for tp in sizes if not t.name(tp).startswith("__")), sizes):
        logs = partition_logs(t, tps, end_s)
        for log in logs.values():
            behind = np.concatenate(([0], log.end - log.lso))
            distance = np.maximum(distance, behind[np.searchsorted(log.time_ns, times_ns, side="right")])
        for (group, tp), position in positions.items():
            if tp in logs and not group.startswith(WARM_UP):
                lag = lag_at(logs[tp], position, times_ns)
                lags[group] = lags.get(group, np.zeros(len(times_ns), np.int64)) + lag
    return dict(sorted(lags.items())), distance


def batch_counts(story: Story) -> Counter[int]:
    """Return the number of batches in the leader's log of each partition."""
    sizes: Counter[int] = Counter()
    for batch in story.tables.batches("batches", ("leader", "tp")):
        numbers, counts = np.unique(batch.filter(batch["leader"])["tp"].to_numpy(), return_counts=True)
        sizes.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
    return sizes


def in_groups(tps: Iterable[int], sizes: Mapping[int, int]) -> Iterator[list[int]]:
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
