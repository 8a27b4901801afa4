"""Count the log entries between the committed offsets of a run's groups and the log ends, by kind.

A consumer's lag is the log end minus the committed offset. It counts markers and records of aborted transactions as
well, so it seldom reaches zero behind a transactional producer. The rows of `measure_lag` say what the lag consists of.

The last offset commit of a group in a partition is the one with the highest offset in `__consumer_offsets`. Commits of
aborted and open transactions do not count (KIP-98). `harness.model.vocabulary.Fate` defines the fate of a record.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from harness.common.errors import UnreadableInput
from harness.common.wording import number, plural, printable
from harness.model.pipeline import CONSUMER_OFFSETS
from harness.model.vocabulary import Fate, OffsetTracking
from harness.record.table_reader import Row, RunTables
from harness.results.recovery import EntryCounts, Lag, PartitionLag
from harness.results.run_metadata import StageProgress

NO_LOGS = "the run has no tables of the broker logs, which show offset commits and markers"
_OFFSETS = ("log_tp", "log_offset", "group", "tp", "committed", "producer_id", "transactional")
_BATCHES = ("tp", "base_offset", "producer_id", "transactional", "marker", "control", "last_offset", "count")
_FATES = pa.array([Fate.PLAIN.value, Fate.COMMIT.value, Fate.ABORT.value, Fate.OPEN.value])
_RECORDS = pa.array(["committed_records", "committed_records", "aborted_records", "open_records"])
_MARKERS = pa.array([None, "commit_markers", "abort_markers", None], pa.string())
"""For each of `_FATES`, the count in `EntryCounts` of records with this fate, and of markers of this type."""


@dataclass(frozen=True)
class _Commit:
    """The committed offset of a group in a partition."""

    committed: int | None  # None: there is none
    deleted: bool = False  # it was committed and then deleted
    pending: int | None = None  # a later offset whose commit is in an open transaction


NO_COMMIT = _Commit(None)


@dataclass(frozen=True)
class _Range:
    """A row, and the range of log entries to count for it: from offset `first` to the log end `row.end`."""

    row: PartitionLag
    tp: int = -1  # negative: nothing is to be counted
    first: int = 0
    compacted: bool = False


def measure_lag(tables: RunTables) -> Lag:
    """Return the lag of each group in each partition that its stage reads.

    This raises nothing. If a table is missing or damaged, `not_known` of the result says why the lag is not known.
    """
    if not all(map(tables.exists, ("replicas", "batches", "offsets"))):
        return Lag(not_known=NO_LOGS)
    try:
        rows = list(_counted(tables, list(_ranges(tables))))
    except (UnreadableInput, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        # A table is missing or damaged, or has null in a column that is never null.
        return Lag(not_known=f"the tables of the run cannot be read: {printable(error, 200)}")
    return Lag.of(rows) if rows else Lag(not_known="the table stages is empty")


def _ranges(tables: RunTables) -> Iterator[_Range]:
    """Yield a row for each group and each partition that its stage reads: committed offset, log end, and the range.

    A stage whose positions are not in a group has one row for each topic, unless it has a [stage.progress]. A topic
    that no stage names has rows if a stage's group committed offsets there, for instance a repartition topic of Kafka
    Streams.
    """
    printed = tables.metadata.stage_progress
    stages = tables.table("stages", ["stage", "group", "in_topic", "positions"]).to_pylist()
    partitions = tables.table("partitions", ["tp", "topic", "partition", "compacted"]).to_pylist()
    leaders = {row["tp"]: row for row in tables.rows("replicas", leader=[True])}
    offsets_tps = [row["tp"] for row in partitions if row["topic"] == CONSUMER_OFFSETS]
    unread = _why_no_commits(tables, offsets_tps, leaders)
    commits = (
        {} if unread else _last_commits(tables, {stage["group"] for stage in stages} - {None}, offsets_tps)
    )
    done: set[tuple[str, int]] = set()
    counted: set[str] = set()
    for stage in stages:
        name, group, topic = stage["stage"], stage["group"], stage["in_topic"]
        if name in printed and group is None:
            yield from _of_progress(stage, printed[name], partitions, leaders, is_first=name not in counted)
            counted.add(name)
            continue
        if why := _positions_elsewhere(stage):
            yield _Range(PartitionLag(name, None, topic, None, not_known=why))
            continue
        for partition in partitions:
            tp = partition["tp"]
            if (group, tp) in done or not (partition["topic"] == topic or (group, tp) in commits):
                continue
            done.add((group, tp))
            log = leaders.get(tp)
            row = PartitionLag(
                name, group, partition["topic"], partition["partition"], end=log["log_end"] if log else None
            )
            if unread:
                yield _Range(structs.replace(row, not_known=unread))
            else:
                span = _Range(row, tp, compacted=partition["compacted"])
                yield _range(span, commits.get((group, tp), NO_COMMIT), log)


def _of_progress(
    stage: Row,
    printed: StageProgress,
    partitions: Sequence[Row],
    leaders: Mapping[int, Row],
    is_first: bool,
) -> Iterator[_Range]:
    """Yield the rows of an input topic of a stage, by what its [stage.progress] printed at the end of the run.

    A number of processed inputs counts all input topics: its one row comes with the first.
    """
    row = PartitionLag(stage["stage"], None, stage["in_topic"], None)
    if printed.not_known:
        yield _Range(structs.replace(row, not_known=printable(printed.not_known, 300)))
    elif printed.processed is not None:
        if is_first:
            yield _Range(structs.replace(row, topic="all inputs", entries=EntryCounts(printed.left or 0)))
    else:
        for partition in partitions:
            if partition["topic"] != row.topic:
                continue
            log = leaders.get(partition["tp"])
            own = structs.replace(row, partition=partition["partition"], end=log["log_end"] if log else None)
            position = printed.by_partition.get((row.topic, partition["partition"]))
            yield _range(
                _Range(own, partition["tp"], compacted=partition["compacted"]), _Commit(position), log
            )


def _positions_elsewhere(stage: Row) -> str:
    """Say why offset commits do not show what a stage has processed; empty: they show it."""
    name = printable(stage["stage"], 60)
    if stage["positions"] == OffsetTracking.EACH.value:
        return f"stage {name} marks each input as processed, and commits no offsets"
    if stage["group"] is None or stage["positions"] not in (None, OffsetTracking.GROUP.value):
        return f"stage {name} stores its positions elsewhere, not in a consumer group"
    return ""


def _why_no_commits(tables: RunTables, offsets_tps: Collection[int], leaders: Mapping[int, Row]) -> str:
    """Say why the committed offsets are not known; empty: the logs of all partitions that have them are stored."""
    if offsets_tps and all(tp in leaders and leaders[tp]["damaged"] is None for tp in offsets_tps):
        return ""
    refused = tables.metadata.refused_logs.get(CONSUMER_OFFSETS)
    why = f": {printable(refused, 200)}" if refused else ""
    return f"the log of {CONSUMER_OFFSETS}, which has the committed offsets, was not read{why}"


def _range(span: _Range, commit: _Commit, log: Row | None) -> _Range:
    """Add the committed offset, and either the first offset to count or why nothing is counted."""
    row = structs.replace(span.row, committed=commit.committed, pending=commit.pending)
    if log is None:
        return _Range(structs.replace(row, not_known="the log of its leader was not read"))
    first, end, high_watermark = commit.committed or 0, log["log_end"], log["high_watermark"]
    why = ""
    if commit.deleted:
        why = "the committed offset was deleted"
    elif first > end:
        why = "the committed offset is above the log end"
    elif log["damaged"] is not None:
        why = "the log of its leader is damaged"
    elif first < log["log_start"]:
        why = f"the log begins at offset {log['log_start']}, and the log entries before it were deleted"
    elif high_watermark is not None and first < end and high_watermark < end:
        why = f"the high watermark is {high_watermark}, so it is not known whether later log entries remain"
    return _Range(structs.replace(row, not_known=why)) if why else replace(span, row=row, first=first)


def _last_commits(
    tables: RunTables, groups: Collection[str], offsets_tps: Collection[int]
) -> dict[tuple[str, int], _Commit]:
    """Return the last offset commits of these groups, by group and partition."""
    if not groups:
        return {}
    # `tp` is the partition of `__consumer_offsets`, as in the table batches; `of` is that of the committed offset.
    commits = tables.table("offsets", _OFFSETS, group=groups).rename_columns(
        ["tp", "base_offset", "group", "of", "committed", "producer_id", "transactional"]
    )
    markers = tables.table("batches", _BATCHES[:5], leader=[True], control=[True], tp=offsets_tps)
    both = _with_fates(pa.concat_tables([commits, markers], promote_options="default"))
    commits = both.filter(pc.is_valid(both["group"]))
    effective = _last_by_group(commits, (Fate.PLAIN, Fate.COMMIT))
    open_commits = _last_by_group(commits, (Fate.OPEN,))
    last = {}
    for key in effective.keys() | open_commits.keys():
        offset, committed = effective.get(key, (-1, None))
        open_offset, pending = open_commits.get(key, (-1, None))
        deleted = key in effective and committed is None
        last[key] = _Commit(committed, deleted, pending if open_offset > offset else None)
    return last


def _last_by_group(commits: pa.Table, fates: Sequence[Fate]) -> dict[tuple[str, int], tuple[int, int | None]]:
    """Return two offsets of the last commit with one of these fates, by group and partition.

    The first is that of the commit in `__consumer_offsets`. The second is the committed offset.
    """
    of_fate = commits.filter(pc.is_in(commits["fate"], pa.array([fate.value for fate in fates])))
    ordered = of_fate.sort_by("base_offset")
    last = ordered.group_by(["group", "of"], use_threads=False).aggregate(
        [("base_offset", "last"), ("committed", "last", pc.ScalarAggregateOptions(skip_nulls=False))]
    )
    return {
        (row["group"], row["of"]): (row["base_offset_last"], row["committed_last"])
        for row in last.to_pylist()
    }


def _with_fates(entries: pa.Table) -> pa.Table:
    """Add the column `fate` to log entries: that of a record, or the type of a marker.

    The columns `tp`, `base_offset`, `producer_id`, `transactional` and `marker` (null for a record) must be there.
    """
    # The marker that decides a record is the nearest one above it of the same producer id.
    entries = entries.sort_by(
        [("tp", "ascending"), ("producer_id", "ascending"), ("base_offset", "descending")]
    ).combine_chunks()
    is_marker = pc.is_valid(entries["marker"])
    above = {
        name: pc.fill_null_forward(pc.if_else(is_marker, entries[name], None))
        for name in ("tp", "producer_id", "marker")
    }
    same = pc.and_(*(pc.equal(above[name], entries[name]) for name in ("tp", "producer_id")))
    decided = pc.if_else(pc.fill_null(same, False), above["marker"], Fate.OPEN.value)
    fate = pc.if_else(pc.or_(is_marker, entries["transactional"]), decided, Fate.PLAIN.value)
    return entries.append_column("fate", fate)


def _counted(tables: RunTables, ranges: Sequence[_Range]) -> Iterator[PartitionLag]:
    """Yield the rows of all ranges, with the counts of their log entries."""
    to_count = {n: span for n, span in enumerate(ranges) if span.tp >= 0}
    counts = _count_entries(tables, to_count)
    sentinels = _sentinels(tables, {span.tp for span in to_count.values()})
    for n, span in enumerate(ranges):
        if n in to_count:
            yield _with_counts(span, EntryCounts(**counts.get(n, {})), sentinels)
        else:
            yield span.row


def _with_counts(
    span: _Range, counts: EntryCounts, sentinels: Mapping[int, Sequence[int]] | None
) -> PartitionLag:
    """Return the row with its counts, or with the reason why they are not known."""
    length = (span.row.end or 0) - span.first
    missing = length - sum(counts.numbers)
    if missing < 0:
        return structs.replace(span.row, not_known="the tables have log entries twice")
    if missing:
        why = ", because its topic is compacted" if span.compacted else ""
        entries = plural(length, "log entry", "log entries")
        return structs.replace(span.row, not_known=f"the log lacks {number(missing)} of these {entries}{why}")
    if sentinels is None or not counts.committed_records:
        return structs.replace(span.row, entries=counts)
    if span.tp not in sentinels:
        return structs.replace(
            span.row, not_known="the final reader did not read the sentinel, which may be one of the records"
        )
    own = sum(offset >= span.first for offset in sentinels[span.tp])
    return structs.replace(
        span.row,
        entries=structs.replace(counts, committed_records=counts.committed_records - own, sentinels=own),
    )


def _sentinels(tables: RunTables, tps: Collection[int]) -> Mapping[int, Sequence[int]] | None:
    """Return the offsets of the sentinels by partition. None: the run wrote none, because a stage keeps no journals."""
    if not all(tables.table("stages", ["journaled"])["journaled"].to_pylist()):
        return None
    offsets: dict[int, list[int]] = {}
    for row in tables.table("records", ["tp", "offset"], sentinel=[True], tp=tps).to_pylist() if tps else ():
        offsets.setdefault(row["tp"], []).append(row["offset"])
    return offsets


def _count_entries(tables: RunTables, ranges: Mapping[int, _Range]) -> dict[int, dict[str, int]]:
    """Count the log entries in each range by kind, without batches that lack some of their records."""
    if not ranges:
        return {}
    wanted = pa.table(
        {
            "range": pa.array(ranges, pa.int64()),
            "tp": pa.array([span.tp for span in ranges.values()], pa.int32()),
            "first": pa.array([span.first for span in ranges.values()], pa.int64()),
        }
    )
    lowest = wanted.group_by("tp").aggregate([("first", "min")]).combine_chunks()
    batches = tables.table("batches", _BATCHES, leader=[True], tp=lowest["tp"].to_pylist())
    # A marker is above the records that it decides, so what is below the lowest range is not needed.
    first = lowest["first_min"].take(pc.index_in(batches["tp"], value_set=lowest["tp"]))
    entries = _with_fates(batches.filter(pc.greater_equal(batches["last_offset"], first)))
    size = pc.add(pc.subtract(entries["last_offset"], entries["base_offset"]), 1)
    entries = entries.filter(pc.equal(size, entries["count"])).join(wanted, "tp", join_type="inner")
    begin = pc.max_element_wise(entries["base_offset"], entries["first"])
    entries = (
        entries.append_column("entries", pc.add(pc.subtract(entries["last_offset"], begin), 1))
        .append_column("kind", _kinds(entries))
        .filter((pc.field("entries") > 0) & pc.field("kind").is_valid())
    )
    counts: dict[int, dict[str, int]] = {}
    for row in entries.group_by(["range", "kind"]).aggregate([("entries", "sum")]).to_pylist():
        counts.setdefault(row["range"], {})[row["kind"]] = row["entries_sum"]
    return counts


def _kinds(entries: pa.Table) -> pa.Array:
    """Return for each log entry the name of the count in `EntryCounts`; null: the log entry is not known."""
    fate = pc.index_in(entries["fate"], value_set=_FATES)
    return pc.if_else(entries["control"], _MARKERS.take(fate), _RECORDS.take(fate))
