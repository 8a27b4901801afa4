"""The lanes of the brokers: when partitions and coordinators got another leader, and warnings and errors in logs.

The broker logs hold the epochs of leaders and coordinators, and not which broker they were. A change is seen at the
first batch, or marker, that has the new epoch; in a partition without traffic that is later than the change.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.record.table_reader import RunTables
from harness.results.wording import printable
from reports.axis.lane import Lane, LaneGroup, bars
from reports.story.logs import TimedLogLine
from reports.story.subjects import Subjects

MOST_PARTITIONS = 12
"""At most this many partitions that no finding names have a lane."""
MOST_MARKS = 200
"""A lane of a log has at most this many marks."""
_MOST_TEXT = 160
EPOCH = "a leader epoch"
NEW_LEADER, NEW_COORDINATOR = "new leader", "new coordinator"
_OFFSETS, _TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def leaders(t: RunTables, named: Subjects) -> Iterator[Lane]:
    """Yield a lane for the changes of all leaders, and two for those of coordinators. Then yield a lane of leader
    epochs for the changed partitions that a finding names, and for those with the most changes.

    Raises `UnreadableInput`.
    """
    if not t.exists("batches") or t.wall_ms_at_zero is None:
        return
    batches = t.table("batches", ("tp", "leader_epoch", "max_timestamp_ms"), leader=[True])
    epochs = _epochs(t, batches.rename_columns(["tp", "epoch", "time_ms"]))
    data = {tp for tp, (topic, _) in t.topic_partitions.items() if not topic.startswith("__")}
    groups = _groups(t)
    yield from _changes("leaders of partitions", NEW_LEADER, epochs, {tp: t.name(tp) for tp in data})
    of_groups = {tp: f"{t.name(tp)}, coordinator of {names}" for tp, names in groups.items()}
    yield from _changes("coordinators of groups", NEW_COORDINATOR, epochs, of_groups)
    yield from _transaction_coordinators(t)
    yield from _partitions(t, epochs, data, named)


def _epochs(t: RunTables, rows: pa.Table) -> pa.Table:
    """Return a row for each epoch of an owner, in order: `tp`, `epoch`, `at_ns` of its first batch, and `before`, the
    epoch before. `before` is null in an owner's first row.

    `rows` has `tp`, `epoch` and `time_ms` of batches.
    """
    rows = rows.filter(rows["epoch"].is_valid())
    by_epoch = rows.group_by(["tp", "epoch"]).aggregate([("time_ms", "min")])
    by_epoch = by_epoch.sort_by([("tp", "ascending"), ("epoch", "ascending")]).combine_chunks()
    tp, epoch, time_ms = (
        by_epoch[name].to_numpy().astype(np.int64) for name in ("tp", "epoch", "time_ms_min")
    )
    first = np.ones(len(tp), bool)
    first[1:] = tp[1:] != tp[:-1]
    at_ns = ((time_ms - (t.wall_ms_at_zero or 0.0)) * 1e6).astype(np.int64)
    before = pa.array(np.roll(epoch, 1), mask=first)
    return pa.table({"tp": tp, "epoch": epoch, "at_ns": at_ns, "before": before})


def _changes(name: str, kind: str, epochs: pa.Table, names: Mapping[int, str]) -> Iterator[Lane]:
    """Yield a lane with a mark for each change of these partitions, if there is one."""
    of_names = pc.is_in(epochs["tp"], pa.array(list(names), pa.int64()))
    rows = epochs.filter(pc.and_(of_names, epochs["before"].is_valid()))
    texts = [f"{names[row['tp']]}: epoch {row['before']} to {row['epoch']}" for row in rows.to_pylist()]
    if texts:
        at_ns = rows["at_ns"].to_numpy()
        yield Lane(
            LaneGroup.LEADERS, name, bars(at_ns, at_ns, (kind,), np.zeros(len(at_ns), np.int64), texts)
        )


def _groups(t: RunTables) -> Mapping[int, str]:
    """Return by partition of `__consumer_offsets` the groups whose offsets it holds."""
    if not t.exists("offsets"):
        return {}
    pairs = t.table("offsets", ("log_tp", "group")).group_by(["log_tp", "group"]).aggregate([]).to_pylist()
    groups: dict[int, list[str]] = {}
    for pair in pairs:
        groups.setdefault(pair["log_tp"], []).append(printable(pair["group"], 60))
    return {tp: ", ".join(sorted(names)) for tp, names in groups.items()}


def _transaction_coordinators(t: RunTables) -> Iterator[Lane]:
    """Yield a lane of the changes of `coordinator_epoch` in the markers, by partition of the transaction log."""
    if not t.exists("transactions"):
        return
    states = t.table("transactions", ("producer_id", "log_tp", "transactional_id"))
    states = states.filter(states["producer_id"].is_valid())
    owners = states.group_by(["producer_id", "log_tp"]).aggregate([("transactional_id", "min")])
    columns = ("producer_id", "coordinator_epoch", "max_timestamp_ms")
    markers = t.table("batches", columns, leader=[True], control=[True])
    by_producer = markers.group_by(["producer_id", "coordinator_epoch"]).aggregate(
        [("max_timestamp_ms", "min")]
    )
    owned = by_producer.join(owners, "producer_id", join_type="inner")
    owned = owned.select(["log_tp", "coordinator_epoch", "max_timestamp_ms_min"])
    epochs = _epochs(t, owned.rename_columns(["tp", "epoch", "time_ms"]))
    names = {tp: f"{t.name(tp)}, coordinator of transactions" for tp in pc.unique(epochs["tp"]).to_pylist()}
    yield from _changes("coordinators of transactions", NEW_COORDINATOR, epochs, names)


def _partitions(t: RunTables, epochs: pa.Table, data: Collection[int], named: Subjects) -> Iterator[Lane]:
    """Yield a lane of leader epochs for each changed partition of a finding, and for those with the most changes."""
    by_partition: dict[int, list[dict[str, int]]] = {}
    for row in epochs.to_pylist():
        if row["tp"] in data:
            by_partition.setdefault(row["tp"], []).append(row)
    changed = sorted(
        (tp for tp, rows in by_partition.items() if len(rows) > 1),
        key=lambda tp: (-len(by_partition[tp]), t.name(tp)),
    )
    of_findings = [tp for tp in changed if t.name(tp) in named.partitions]
    others = [tp for tp in changed if tp not in of_findings]
    for tp in [*of_findings, *others[:MOST_PARTITIONS]]:
        rows = by_partition[tp]
        begin = np.array([row["at_ns"] for row in rows], np.int64)
        end = np.append(begin[1:], -1)
        texts = [f"leader epoch {row['epoch']}" for row in rows]
        lane_bars = bars(begin, np.maximum(end, -1), (EPOCH,), np.zeros(len(rows), np.int64), texts)
        yield Lane(LaneGroup.LEADERS, printable(t.name(tp), 80), lane_bars, of_finding=tp in of_findings)


def log_lanes(lines: Sequence[TimedLogLine]) -> Iterator[Lane]:
    """Yield a lane of marks for each log."""
    levels = ("error", "warning")
    by_source: dict[str, list[TimedLogLine]] = {}
    for line in lines:
        by_source.setdefault(line.source, []).append(line)
    for source, own in sorted(by_source.items()):
        at_ns = np.array([round(line.time_s * 1e9) for line in own], np.int64)
        codes = np.array([levels.index(line.level) for line in own])
        lane_bars = bars(at_ns, at_ns, levels, codes, [line.text[:_MOST_TEXT] for line in own], MOST_MARKS)
        yield Lane(LaneGroup.LOGS, printable(source, 80), lane_bars)
