"""Times in which a group had inputs to process and committed nothing for longer than the time-outs explain."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from checkers.recovery.liveness import Group, RunProgress
from harness.record.timeline.partition_offsets import first_waiting, sorted_times
from harness.results.verdict import FaultReport


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
