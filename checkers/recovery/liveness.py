"""How long each fault of a run hurt, from its timeline and the logs of its partitions.

A commit is the end of a committed transaction, an output that becomes committed, or an offset commit of a group. If no
worker keeps a journal, a transaction commits at the time stamp of its markers.

Rate, latency and lag are compared second by second with their medians in the ten seconds before the fault. A second is
in the band of a value if the value is within 25 % of this median, or better: a higher rate, a lower latency or lag.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.model.pipeline import PipelineSpec
from harness.model.promises import TRANSACTIONS_TOPIC
from harness.model.vocabulary import WARM_UP, OffsetTracking, worker_of
from harness.record.table_reader import RunTables
from harness.record.timeline.load import Ending, Timeline, load
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
    sorted_times,
)
from harness.results.recovery import LEAST_BEFORE_S, Liveness
from harness.results.run_metadata import RunPhase
from harness.results.verdict import FaultReport

LOAD = "faults"
"""The phase of a run in which inputs arrive."""
BEFORE_S = 10
TOLERANCE = 0.25
SESSION_MS = 45_000
"""Kafka's default `session.timeout.ms`."""
MARGIN_MS = 15_000
"""One and a half times the default interval at which a coordinator looks for transactions that have timed out."""
_NEVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Window:
    """The window of a fault, in nanoseconds since the start of the run."""

    start_ns: int
    heal_ns: int | None  # None: it was not healed
    end_ns: int


@dataclass(frozen=True)
class Group:
    """The progress of a consumer group."""

    commits_ns: Integers  # when it committed offsets, in order
    partitions: Mapping[str, tuple[PartitionLog, Positions]]  # by partition that its stages read


@dataclass(frozen=True)
class RunProgress:
    """Everything of a run that shows its progress. Times are nanoseconds, in order. None: not known."""

    commits_ns: Integers
    ended_ns: Integers  # once for each committed transaction
    latencies_ns: Integers  # of the transactions in `ended_ns`; negative: not known
    outputs: Mapping[str, Integers] = field(default_factory=dict)  # by output partition, its commits
    resolution_ns: int = 0  # of the latencies
    still: Mapping[str, tuple[Integers, Integers]] | None = None  # by partition, see `PartitionLog.still`
    groups: Mapping[str, Group] = field(default_factory=dict)
    load_end_ns: int | None = None
    aborted_ns: Integers | None = None
    fenced_ns: Integers | None = None
    rebalances_ns: Integers | None = None
    by_process: Mapping[str, Integers] = field(default_factory=dict)
    """By worker or instance (`bill-2`): when it committed transactions. Empty: the evidence does not name processes."""
    bound_ns: int | None = None  # the longest gap that the time-outs in force explain


def fault_windows(
    faults: Sequence[FaultReport], load_end_ns: int, last_commit_ns: int
) -> list[Window | None]:
    """Return the window of each fault that acted; None for the others.

    A window begins at the injection. It ends at the next injection, but not before the heal and not after the load. If
    the heal is after the load, the limit is the last commit instead. Without a heal, the window ends at the last commit
    or with the load, whichever is later.
    """
    starts = sorted(_ns(fault.start_s) for fault in faults if fault.acted)
    windows: list[Window | None] = []
    for fault in faults:
        if not fault.acted:
            windows.append(None)
            continue
        start_ns, heal_ns = _ns(fault.start_s), None if fault.end_s is None else _ns(fault.end_s)
        next_ns = next((other for other in starts if other > start_ns), _NEVER)
        if heal_ns is None:
            end_ns = max(last_commit_ns, load_end_ns)
        elif heal_ns > load_end_ns:
            end_ns = max(last_commit_ns, heal_ns)
        else:
            end_ns = load_end_ns
        windows.append(Window(start_ns, heal_ns, max(min(max(next_ns, heal_ns or _NEVER), end_ns), start_ns)))
    return windows


def liveness(progress: RunProgress, window: Window, victim: str | None = None) -> Liveness:
    """Return how long a fault hurt, without the bound.

    Args:
        victim: the process that it hit, by its journal or by its worker
    """
    start_ns, end_ns = window.start_ns, window.end_ns
    worst = max(
        (
            (longest_gap_ns(times, start_ns, end_ns), name)
            for name, times in progress.outputs.items()
            if len(times) and times[0] < start_ns
        ),
        default=None,
    )
    lso_still = _longest_still(progress.still or {}, window)
    seconds = _Seconds(progress, window)
    first_commit_s = _first_after(progress.commits_ns, start_ns)
    of_victim = {} if victim is None else _of_victim(progress, window, victim)
    return Liveness(
        first_commit_s=first_commit_s,
        first_commit_after_heal_s=None
        if window.heal_ns is None
        else _first_after(progress.commits_ns, window.heal_ns),
        # A commit that ends the gap may come after the window.
        longest_gap_s=max(_s(longest_gap_ns(progress.commits_ns, start_ns, end_ns)), first_commit_s or 0.0),
        worst_partition=worst and worst[1],
        worst_partition_gap_s=worst and _s(worst[0]),
        lso_still_s=None if progress.still is None else _s(lso_still[0]),
        lso_partition=lso_still[1],
        rate_back_s=seconds.rate_back_s(),
        latency_back_s=seconds.latency_back_s(),
        lag_back_s=seconds.lag_back_s(),
        seconds_before=seconds.before,
        not_measured=_not_measured(progress),
        **_of_inputs(progress, start_ns),
        **of_victim,
        aborted=_count(progress.aborted_ns, window),
        fenced=_count(progress.fenced_ns, window),
        rebalances=_count(progress.rebalances_ns, window),
    )


def _not_measured(progress: RunProgress) -> tuple[str, ...]:
    """Return the values that the evidence of the run cannot show."""
    latency_known = bool((progress.latencies_ns >= 0).any())
    read = any(group.partitions for group in progress.groups.values())
    return (*(() if latency_known else ("latency_back_s",)), *(() if read else ("lag_back_s",)))


def _of_inputs(progress: RunProgress, start_ns: int) -> dict[str, Any]:
    """Return when the groups had committed offsets of all input partitions again, and which partition was last."""
    back: dict[str, int] = {}
    not_back = []
    for group in progress.groups.values():
        for name, (log, positions) in group.partitions.items():
            waiting = log.data & (log.time_ns >= start_ns)
            if not waiting.any():
                continue
            at = int(np.searchsorted(positions.time_ns, start_ns))
            if at < len(positions.time_ns):
                back[name] = int(positions.time_ns[at]) - start_ns
            else:
                not_back.append(name)
    if not back:
        return {"inputs_not_back": tuple(not_back)}
    slowest = max(back, key=lambda name: back[name])
    return {
        "slowest_input": slowest,
        "slowest_input_s": _s(back[slowest]),
        "inputs_not_back": tuple(not_back),
    }


def _of_victim(progress: RunProgress, window: Window, victim: str) -> dict[str, Any]:
    """Return when a process committed again, or why that is not known."""
    worker = worker_of(victim)
    times_ns = progress.by_process.get(worker)
    if times_ns is None:
        why = "no evidence names the process of a commit" if not progress.by_process else "it never committed"
        return {"victim": worker, "victim_not_known": why}
    return {"victim": worker, "victim_commit_s": _first_after(times_ns, window.start_ns)}


def longest_gap_ns(times_ns: Integers, start_ns: int, end_ns: int) -> int:
    """Return the longest time between `start_ns` and `end_ns` without one of the sorted times."""
    inside = times_ns[np.searchsorted(times_ns, start_ns) : np.searchsorted(times_ns, end_ns, side="right")]
    return int(np.diff(np.concatenate(([start_ns], inside, [end_ns]))).max())


def _first_after(times_ns: Integers, since_ns: int) -> float | None:
    at = int(np.searchsorted(times_ns, since_ns))
    return _s(int(times_ns[at]) - since_ns) if at < len(times_ns) else None


def _longest_still(still: Mapping[str, tuple[Integers, Integers]], window: Window) -> tuple[int, str | None]:
    longest: tuple[int, str | None] = (0, None)
    for name, (begins, ends) in still.items():
        overlaps = np.minimum(ends, window.end_ns) - np.maximum(begins, window.start_ns)
        if len(overlaps) and overlaps.max() > longest[0]:
            longest = (int(overlaps.max()), name)
    return longest


class _Seconds:
    """The seconds around the injection of a fault."""

    def __init__(self, progress: RunProgress, window: Window) -> None:
        self._progress, self._start_ns = progress, window.start_ns
        first_ns = int(progress.commits_ns[0]) if len(progress.commits_ns) else window.start_ns
        self.before = min(BEFORE_S, max(0, window.start_ns - first_ns) // SECOND_NS)
        self._after = (window.end_ns - window.start_ns) // SECOND_NS
        self._known = self.before >= LEAST_BEFORE_S

    def rate_back_s(self) -> float | None:
        times_ns = self._progress.ended_ns if len(self._progress.ended_ns) else self._progress.commits_ns
        second = self._second(times_ns)
        counts = np.bincount(second[second >= 0], minlength=self.before + self._after)
        counts = counts[: self.before + self._after]
        median = float(np.median(counts[: self.before])) if self._known else 0.0
        return self._back_s(counts[self.before :] >= median * (1 - TOLERANCE)) if median > 0 else None

    def latency_back_s(self) -> float | None:
        known = self._progress.latencies_ns >= 0
        second = self._second(self._progress.ended_ns[known])
        latencies = self._progress.latencies_ns[known]
        in_order = np.argsort(second, kind="stable")
        second, latencies = second[in_order], latencies[in_order]
        borders = np.searchsorted(second, np.arange(self.before + self._after + 1))
        earlier = latencies[borders[0] : borders[self.before]]
        if not self._known or not len(earlier):
            return None
        median = float(np.median(earlier))
        most = max(median * (1 + TOLERANCE), median + self._progress.resolution_ns)
        parts = zip(borders[self.before :], borders[self.before + 1 :], strict=False)
        in_band = [bool(low < high and np.median(latencies[low:high]) <= most) for low, high in parts]
        return self._back_s(np.array(in_band, np.bool_))

    def lag_back_s(self) -> float | None:
        groups = self._progress.groups.values()
        read = [partition for group in groups for partition in group.partitions.values()]
        if not self._known or not read:
            return None
        borders_ns = self._start_ns + np.arange(-self.before, self._after + 1) * SECOND_NS
        greatest = np.sum([greatest_lags(log, own, borders_ns) for log, own in read], axis=0)
        median = float(np.median(greatest[: self.before]))
        most = max(median * (1 + TOLERANCE), median + 1)  # one record is the smallest change
        return self._back_s(greatest[self.before :] <= most)

    def _second(self, times_ns: Integers) -> Integers:
        """Return the index of each time's second. The injection begins second `self.before`."""
        seconds: Integers = (times_ns - self._start_ns) // SECOND_NS + self.before
        return seconds

    @staticmethod
    def _back_s(in_band: np.ndarray) -> float | None:
        """Return the seconds until two in a row are in the band, after one outside. 0: all are. None: no two follow."""
        out = np.flatnonzero(~in_band)
        if not len(out):
            return 0.0 if len(in_band) else None
        back = np.flatnonzero(in_band[:-1] & in_band[1:])
        later = back[back > out[0]]
        return float(later[0]) if len(later) else None


def _count(times_ns: Integers | None, window: Window) -> int | None:
    if times_ns is None:
        return None
    return int(np.count_nonzero((times_ns >= window.start_ns) & (times_ns <= window.end_ns)))


def read_progress(
    tables: RunTables,
    pipeline: PipelineSpec,
    phases: Sequence[RunPhase],
    session_ms: int | None = None,
) -> RunProgress:
    """Return the progress of a run. A field without evidence is None or empty.

    Args:
        tables: The tables of the run.
        pipeline: The pipeline of the run.
        phases: Its phases. The load is the phase "faults".
        session_ms: The session time-out of its consumers. None: Kafka's default.

    Raises:
        UnreadableInput: A table is damaged.
    """
    end_s = max((phase.end_s for phase in phases), default=math.inf)
    logs = _read_logs(tables, end_s)
    timeline = load(tables, end_s, with_commits=not logs)
    committed = timeline.transactions.filter(pc.field("ending") == Ending.COMMITTED.value)
    committed = committed.filter(committed["end_ns"].is_valid()).sort_by("end_ns")
    ended_ns = np.asarray(committed["end_ns"])
    groups = _groups(tables, pipeline, logs)
    data = {
        tables.name(tp): log for tp, log in logs.items() if tables.topic_partitions[tp][0] != OFFSETS_TOPIC
    }
    outputs = {
        tables.name(tp): times_ns
        for tp, times_ns in _commits(timeline, logs).items()
        if tables.topic_partitions[tp][0] in pipeline.output_topics
    }
    commits = [ended_ns, *outputs.values(), *(group.commits_ns for group in groups.values())]
    aborted_ns, longest_ms = _transaction_log(tables)
    pauses_ms = max((round(1000 * (stage.every_s or 0)) for stage in pipeline.stages), default=0)
    return RunProgress(
        commits_ns=sorted_times(*commits),
        ended_ns=ended_ns,
        latencies_ns=np.asarray(pc.fill_null(pc.subtract(committed["end_ns"], committed["decided_ns"]), -1)),
        outputs=outputs,
        resolution_ns=1_000_000 if timeline.by_logs else 0,
        still={name: log.still for name, log in data.items()} if logs else None,
        groups=groups,
        load_end_ns=_load_end_ns(tables, pipeline, logs, phases),
        aborted_ns=aborted_ns,
        fenced_ns=None if timeline.by_logs else _fenced_ns(timeline),
        rebalances_ns=None if timeline.by_logs else _rebalances_ns(tables),
        by_process=_by_process(committed),
        bound_ns=None
        if longest_ms is None
        else (longest_ms + (SESSION_MS if session_ms is None else session_ms) + MARGIN_MS + pauses_ms)
        * 1_000_000,
    )


def _read_logs(tables: RunTables, end_s: float) -> dict[int, PartitionLog]:
    """Return the logs of the topics of the run and of the offset commits. Empty: the run has no logs."""
    if not tables.exists("batches"):
        return {}
    own = [tp for tp, (topic, _) in tables.topic_partitions.items() if topic != TRANSACTIONS_TOPIC]
    return partition_logs(tables, own, end_s)


def _by_process(committed: pa.Table) -> dict[str, Integers]:
    """Return the ends of committed transactions by worker or instance."""
    named = committed.filter(committed["process"].is_valid())
    workers = np.array([worker_of(name) for name in named["process"].to_pylist()])
    ended_ns = np.asarray(named["end_ns"])
    return {str(worker): np.sort(ended_ns[workers == worker]) for worker in np.unique(workers)}


def _commits(timeline: Timeline, logs: Mapping[int, PartitionLog]) -> dict[int, Integers]:
    """Return the times of the commits of each partition: from its log, or else from the journals."""
    if logs:
        return {tp: log.commits_ns for tp, log in logs.items()}
    tp, time_ns = (np.asarray(timeline.commits[name]) for name in ("tp", "time_ns"))
    return {int(own): sorted_times(time_ns[tp == own]) for own in np.unique(tp)}


def _groups(tables: RunTables, pipeline: PipelineSpec, logs: Mapping[int, PartitionLog]) -> dict[str, Group]:
    """Return the progress of the groups that commit offsets. Empty: the run has no logs."""
    if not logs or not tables.exists("offsets"):
        return {}
    positions = group_positions(tables, logs)
    topics: dict[str, set[str]] = {}
    for stage in pipeline.stages:
        if stage.group is not None and stage.offset_tracking is OffsetTracking.GROUP:
            topics.setdefault(stage.group, set()).update(stage.reads)
    groups = {}
    for group, read in topics.items():
        tps = [tp for topic in sorted(read) for tp in sorted(tables.partitions_of(topic)) if tp in logs]
        own = {tp: positions.get((group, tp), Positions(NO_TIMES, NO_TIMES)) for tp in tps}
        groups[group] = Group(
            sorted_times(*(each.time_ns for each in own.values())),
            {tables.name(tp): (logs[tp], each) for tp, each in own.items()},
        )
    return groups


def _load_end_ns(
    tables: RunTables, pipeline: PipelineSpec, logs: Mapping[int, PartitionLog], phases: Sequence[RunPhase]
) -> int | None:
    """Return when the last input arrived in a topic that no stage writes, before the run stopped its feeder.

    None: not known. If the time stamps of the inputs do not tell it, it is the time when the run stopped its feeder.
    """
    stopped_ns = max((_ns(phase.end_s) for phase in phases if phase.name == LOAD), default=None)
    sources = {topic for stage in pipeline.stages for topic in stage.reads} - set(pipeline.output_topics)
    arrivals = [
        log.time_ns[log.data & (log.time_ns <= (_NEVER if stopped_ns is None else stopped_ns))]
        for tp, log in logs.items()
        if tables.topic_partitions[tp][0] in sources
    ]
    last_ns = max((int(times[-1]) for times in arrivals if len(times)), default=0)
    return last_ns or stopped_ns


def _transaction_log(tables: RunTables) -> tuple[Integers | None, int | None]:
    """Return when transactions were aborted, and the longest time-out of the transactions in milliseconds."""
    if not tables.exists("transactions"):
        return None, None
    states = tables.table("transactions", ("transactional_id", "state", "timeout_ms", "update_ms"))
    aborted = states.filter(pc.field("state") == "CompleteAbort")
    own = pc.invert(pc.starts_with(aborted["transactional_id"], WARM_UP))
    times_ms = aborted.filter(own)["update_ms"].drop_null()
    times_ns = ((np.asarray(times_ms) - (tables.wall_ms_at_zero or 0.0)) * 1e6).astype(np.int64)
    return np.sort(times_ns), pc.max(states["timeout_ms"]).as_py()


def _fenced_ns(timeline: Timeline) -> Integers:
    fenced = timeline.transactions.filter(pc.field("fenced"))
    return np.sort(np.asarray(pc.coalesce(fenced["end_ns"], fenced["begin_ns"])))


def _rebalances_ns(tables: RunTables) -> Integers | None:
    """Return when consumers were assigned partitions."""
    if not tables.exists("assignments"):
        return None
    gained = tables.table("assignments", ("journal", "process", "time_ns"), gained=[True])
    times = gained.group_by(["journal", "process", "time_ns"]).aggregate([])
    return np.sort(np.asarray(times["time_ns"]))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _s(time_ns: int) -> float:
    return round(time_ns / 1e9, 3)
