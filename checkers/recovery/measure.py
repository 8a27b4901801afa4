"""Measure how the pipeline of a stored run recovered from its faults, and find its stalls. This uses no Spark.

A stall is a time in which a group had inputs to process and committed nothing for longer than the time-outs explain. If
inputs still waited when the stages were stopped, and that time was shorter, it is not decided whether it is a stall.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import structs

from checkers.recovery.liveness import (
    LOAD,
    Group,
    RunProgress,
    Window,
    fault_windows,
    liveness,
    read_progress,
)
from checkers.registry import checker_of
from harness.common.errors import UnreadableInput
from harness.common.wording import printable
from harness.model.pipeline import PipelineSpec
from harness.model.promises import Promises
from harness.model.vocabulary import Premise
from harness.record.protocol_journal import ProtocolJournal
from harness.record.table_reader import RunTables
from harness.record.timeline.partition_offsets import first_waiting, sorted_times
from harness.results.conclusions import NotDecided
from harness.results.example import Example
from harness.results.reasons import Reason, ReasonCode
from harness.results.recovery import Liveness
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import AnomalyFindings, FaultReport

MOST_EXAMPLES = 10
MOST_DRIFT_MS = 500.0
"""A wall clock that moved further than this against the monotonic clock does not tell when a marker was written."""


@dataclass(frozen=True)
class Stall:
    """A time in which a group had an input and committed nothing. Times are nanoseconds since the start of the run."""

    group: str
    from_ns: int  # from here on the input waited, and the group committed nothing
    to_ns: int
    bound_ns: int
    committed: bool  # a commit ended it; if not: the injection of the next fault, or the end of the stages
    partition: str  # of the input that waited longest: "purchases/0"
    offset: int
    fault: FaultReport | None  # the last fault injected before `from_ns`; None: there was none


@dataclass(frozen=True)
class Standstill:
    """An input partition in which inputs waited when the stages were stopped. Times are nanoseconds since the start."""

    group: str
    partition: str  # "purchases/2"
    offset: int  # of the first input that waited
    waited_ns: int  # how long inputs had waited, since the last commit of the group in any partition
    last_ns: int | None  # the last commit of the group in it; None: there is none
    others_ns: int | None  # the last commit of the group in its other partitions; None: there is none
    fault: FaultReport | None  # the last fault injected before `last_ns`; None: there was none

    @property
    def sentence(self) -> str:
        """When the group stood still there, and whether it went on elsewhere."""
        where = f"{printable(self.group, 60)} in {printable(self.partition, 80)}"
        last = "no commit" if self.last_ns is None else f"the last commit at {self.last_ns / 1e9:,.1f} s"
        after = ""
        if self.fault is not None and self.last_ns is not None:
            after = f", {self.last_ns / 1e9 - self.fault.start_s:,.1f} s after {printable(self.fault.struck, 120)}"
        elif self.last_ns is not None:
            after = ", when no fault had come"
        others = (
            "" if self.others_ns is None else f"; in its other partitions until {self.others_ns / 1e9:,.1f} s"
        )
        return f"{where}: {last}{after}{others}; the input at offset {self.offset} waited until the end"


@dataclass(frozen=True)
class Recovery:
    """How a run recovered from its faults."""

    faults: Sequence[FaultReport] = ()  # each with its liveness if it acted
    stalls: Sequence[Stall] = ()
    standstills: Sequence[Standstill] = ()
    groups: int = 0  # how many were looked at for stalls
    bound_ns: int | None = None  # the longest gap between commits that the time-outs explain; None: not known
    not_known: Reason | None = None  # why nothing is known


def measure_recovery(
    folder: Path,
    pipeline: PipelineSpec,
    promises: Promises,
    run: Mapping[str, Any],
    run_metadata: RunMetadata | None,
) -> Recovery:
    """Measure how long each fault of a run hurt, and find its stalls. Without metadata no fault is known.

    Args:
        run: the table `[run]` of run.toml
    """
    if run_metadata is None:
        return Recovery()
    faults = run_metadata.faults
    why = _clocks_differ(promises, run, run_metadata)
    if why is None:
        try:
            t = RunTables(folder)
            # A program of the user sets its own time-out, and nothing shows which.
            session_ms = run.get("session_timeout_ms") if pipeline.journaled else None
            progress = read_progress(t, pipeline, run_metadata.phases, session_ms)
        except (UnreadableInput, pa.ArrowException) as error:
            why = Reason(ReasonCode.NO_LOGS, printable(str(error), 300))
    if why is not None:
        unknown = [_with(fault, Liveness(not_known=why.text)) for fault in faults]
        return Recovery(unknown, not_known=why)
    span_ns = _span(run_metadata)
    return Recovery(
        _with_liveness(faults, progress, _protocol(t)),
        stalls(progress, faults, span_ns) if span_ns else (),
        standstills(progress, faults, span_ns) if span_ns else (),
        len(progress.groups),
        progress.bound_ns,
    )


def _with_liveness(
    faults: Sequence[FaultReport], progress: RunProgress, journal: ProtocolJournal
) -> list[FaultReport]:
    if not len(progress.commits_ns):
        return [_with(fault, Liveness(not_known="no table of the run has a commit")) for fault in faults]
    last_commit_ns = int(progress.commits_ns[-1])
    load_end_ns = last_commit_ns if progress.load_end_ns is None else progress.load_end_ns
    windows = fault_windows([_acting(fault, journal) for fault in faults], load_end_ns, last_commit_ns)
    return [
        fault if window is None else _with(fault, _measured(progress, window, fault))
        for fault, window in zip(faults, windows, strict=True)
    ]


def _protocol(tables: RunTables) -> ProtocolJournal:
    """Return the protocol proxy's journal. It is empty if it cannot be read: a rule then acts from its injection."""
    try:
        return tables.protocol
    except UnreadableInput:
        return ProtocolJournal()


def _acting(fault: FaultReport, journal: ProtocolJournal) -> FaultReport:
    """Let a fault that is a rule begin with the first message on which it acted."""
    acted_ns = journal.acted_from_ns(fault.rules)
    return fault if acted_ns is None else structs.replace(fault, start_s=max(fault.start_s, acted_ns / 1e9))


def _span(run_metadata: RunMetadata) -> tuple[int, int] | None:
    """Return the time from the start of the load to the end of the drain. None: the run has no such phases."""
    ready = [phase.start_s for phase in run_metadata.phases if phase.name == LOAD]
    stopped = [phase.end_s for phase in run_metadata.phases if phase.name in (LOAD, "heal", "drain")]
    return (_ns(ready[0]), _ns(max(stopped))) if ready else None


def stalled(found: Sequence[Stall]) -> AnomalyFindings:
    """Return the findings of the warning `stalled`."""
    wording = checker_of("stalled").wording("stalled")
    examples = [_example(stall) for stall in found[:MOST_EXAMPLES]]
    return AnomalyFindings(
        count=len(found),
        examples=examples,
        allowed=True,
        warning=True,
        sentences=[wording.sentence(example) for example in examples],
        words=wording.describe_count(len(found)),
        meaning=wording.meaning,
    )


def undecided_stalls(recovery: Recovery, is_incomplete: bool) -> NotDecided | None:
    """Return what is not decided about stalls. None: all of it is decided.

    Args:
        recovery: what was measured
        is_incomplete: evidence of the run is missing, so that a missing commit proves nothing
    """
    names = {each.group for each in recovery.standstills}
    if is_incomplete:
        names |= {stall.group for stall in recovery.stalls}
    else:
        names -= {stall.group for stall in recovery.stalls}
    if not names:
        return None
    shown = [each.sentence for each in recovery.standstills if each.group in names][:MOST_EXAMPLES]
    waited_ns = max((each.waited_ns for each in recovery.standstills if each.group in names), default=None)
    bound = (
        "are not known" if recovery.bound_ns is None else f"explain up to {recovery.bound_ns / 1e9:,.1f} s"
    )
    if waited_ns is None:
        why = "commits are missing, but evidence is missing too, so they may have been made"
    else:
        why = (
            f"the group committed nothing in the {waited_ns / 1e9:,.1f} s before the stages were stopped, though "
            f"inputs waited; its time-outs {bound}"
        )
    return NotDecided(
        "stalled",
        len(names),
        recovery.groups,
        "groups",
        why,
        "read the logs of its members at that time, in workers/ of the run; if they only needed longer, write a longer "
        "works_within_s or idle_s in their [[stage]]",
        sentences=shown,
    )


def _example(stall: Stall) -> Example:
    topic, _, partition = stall.partition.rpartition("/")
    return Example.from_json(
        {
            "group": stall.group,
            "still_s": round((stall.to_ns - stall.from_ns) / 1e9, 3),
            "bound_s": round(stall.bound_ns / 1e9, 3),
            "from_s": round(stall.from_ns / 1e9, 3),
            "to_s": round(stall.to_ns / 1e9, 3),
            "committed": stall.committed,
            "fault": stall.fault and stall.fault.fault,
            "input": {"topic": topic, "partition": int(partition), "offset": stall.offset},
        }
    )


def _clocks_differ(promises: Promises, run: Mapping[str, Any], run_metadata: RunMetadata) -> Reason | None:
    """Return why the times in logs and journals cannot be compared. None: they can."""
    why = None
    drift_ms = run_metadata.clock_drift_ms
    if Premise.ONE_CLOCK.value in promises.broken_premises:
        why = "a fault of this run changed a clock"
    elif not promises.one_clock:
        why = "the clocks of the brokers are not the clock of this machine"
    elif drift_ms is not None and not drift_ms <= MOST_DRIFT_MS:
        why = f"the wall clock moved by {drift_ms:,.0f} ms against the monotonic one during the run"
    elif run.get("wall_ms_at_zero") is None:
        why = "run.toml does not say when the run began"
    return None if why is None else Reason(ReasonCode.CLOCK_DRIFT, why)


def _with(fault: FaultReport, liveness: Liveness) -> FaultReport:
    return structs.replace(fault, liveness=liveness) if fault.acted else fault


def _measured(progress: RunProgress, window: Window, fault: FaultReport) -> Liveness:
    bound_ns = progress.bound_ns
    if bound_ns is not None and fault.may_halt:
        bound_ns += (window.end_ns if window.heal_ns is None else window.heal_ns) - window.start_ns
    return structs.replace(
        liveness(progress, window, fault.details.get("worker")),
        bound_s=None if bound_ns is None else round(bound_ns / 1e9, 3),
    )


def stalls(
    progress: RunProgress,
    faults: Sequence[FaultReport],
    span_ns: tuple[int, int],
) -> list[Stall]:
    """Return the stalls of all groups, in the order of their ends. Without a bound there are none.

    Args:
        progress: The progress of the run.
        faults: The faults of the run. The duration of those that halt adds to the bound.
        span_ns: From when all stages were ready until they were stopped.
    """
    if progress.bound_ns is None:
        return []
    acted = sorted((fault for fault in faults if fault.acted), key=lambda fault: fault.start_s)
    halted = _merged(
        (_ns(fault.start_s), span_ns[1] if fault.end_s is None else _ns(fault.end_s))
        for fault in acted
        if fault.may_halt
    )
    found = [
        stall
        for name, group in progress.groups.items()
        for stall in _of_group(name, group, acted, halted, progress.bound_ns, span_ns)
    ]
    return sorted(found, key=lambda stall: (stall.to_ns, stall.group))


def _of_group(
    name: str,
    group: Group,
    acted: Sequence[FaultReport],
    halted: Sequence[tuple[int, int]],
    bound_ns: int,
    span_ns: tuple[int, int],
) -> Iterator[Stall]:
    injected_ns = np.array([_ns(fault.start_s) for fault in acted], np.int64)
    # After an injection the group may need the time-outs again, so an injection ends a gap.
    points = sorted_times(group.commits_ns, injected_ns, np.array(span_ns))
    points = points[points >= span_ns[0]]
    for at in np.flatnonzero(np.diff(points) > bound_ns):
        from_ns, to_ns = int(points[at]), int(points[at + 1])
        waiting = min(_waiting(group, from_ns, to_ns), default=None)
        if waiting is None:
            continue
        since_ns, partition, offset = waiting
        halted_ns = sum(max(0, min(end, to_ns) - max(start, since_ns)) for start, end in halted)
        if to_ns - since_ns > bound_ns + halted_ns:
            before = int(np.searchsorted(injected_ns, since_ns, side="right"))
            yield Stall(
                group=name,
                from_ns=since_ns,
                to_ns=to_ns,
                bound_ns=bound_ns + halted_ns,
                committed=bool(np.isin(to_ns, group.commits_ns)),
                partition=partition,
                offset=offset,
                fault=acted[before - 1] if before else None,
            )


def standstills(
    progress: RunProgress, faults: Sequence[FaultReport], span_ns: tuple[int, int]
) -> list[Standstill]:
    """Return the partitions in which inputs waited when the stages were stopped, those that waited longest first."""
    acted = sorted((fault for fault in faults if fault.acted), key=lambda fault: fault.start_s)
    found = []
    for name, group in progress.groups.items():
        last = {
            partition: int(positions.time_ns[-1])
            for partition, (_, positions) in group.partitions.items()
            if len(positions.time_ns)
        }
        for partition, (log, positions) in group.partitions.items():
            own_ns = last.get(partition)
            waiting = first_waiting(log, positions, span_ns[0] if own_ns is None else own_ns, span_ns[1])
            if waiting is not None:
                others = [time_ns for other, time_ns in last.items() if other != partition]
                before = [fault for fault in acted if own_ns is not None and fault.start_s * 1e9 <= own_ns]
                since_ns, offset = waiting
                standstill = Standstill(
                    group=name,
                    partition=partition,
                    offset=offset,
                    waited_ns=span_ns[1] - max(since_ns, *last.values(), span_ns[0]),
                    last_ns=own_ns,
                    others_ns=max(others, default=None),
                    fault=before[-1] if before else None,
                )
                found.append((since_ns, partition, standstill))
    return [standstill for _, _, standstill in sorted(found, key=lambda row: row[:2])]


def _waiting(group: Group, from_ns: int, to_ns: int) -> Iterator[tuple[int, str, int]]:
    """Yield each partition with a waiting input: since when it waits, the partition, the offset."""
    for partition, (log, positions) in group.partitions.items():
        waiting = first_waiting(log, positions, from_ns, to_ns)
        if waiting is not None:
            yield waiting[0], partition, waiting[1]


def _merged(spans: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans without overlaps. They are sorted by their starts."""
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
