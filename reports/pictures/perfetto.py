"""Write the trace of a stored run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import IO

from harness.common.errors import UnreadableInput
from harness.results.example import Example
from harness.results.verdict import FaultReport, Verdict
from harness.results.wording import number
from reports.pictures.slices import (
    IDS,
    PARTITIONS,
    draw_changed_requests,
    draw_partitions,
    draw_processes,
    draw_readers,
    draw_transactional_ids,
)
from reports.pictures.tracks import Slice, TraceFile, Tracks, microseconds, text
from reports.series import series
from reports.story.model import Notes
from reports.story.paths import BY_IMPORTANCE, RecordPaths, positions_of_findings, record_paths
from reports.story.progress import by_second
from reports.story.run import Position, Story
from reports.story.samples import Drawn, Intervals, PartitionSample
from reports.under_way import nanoseconds

FINDINGS, FAULTS, PHASES = "findings", "faults", "phases of the run"
AROUND_NS = 1_000_000_000
"""Rows at most this long before or after a fault or a finding are near to it."""


@dataclass
class TraceSummary:
    """What is in a trace."""

    events: int = 0
    drawn: dict[str, Drawn] = field(default_factory=dict)  # by kind
    missing: list[str] = field(default_factory=list)  # evidence that cannot be read

    @property
    def left_out(self) -> list[str]:
        """What is in the tables and not in the trace, in words."""
        return [
            f"{number(each.total - each.drawn)} of {number(each.total)} {kind}"
            + (f" ({each.reason})" if each.reason else "")
            for kind, each in self.drawn.items()
            if each.drawn < each.total
        ]


def write_trace(stream: IO[bytes], story: Story, verdict: Verdict | None) -> TraceSummary:
    """Write a run as Trace Event JSON, and return what is in it.

    Tables that are missing or damaged are noted. `verdict`: None if the run has none; then no findings are drawn.
    Raises `UnreadableInput` if the tables of partitions, journals or operations, or metadata.json are damaged.
    """
    file = TraceFile(stream)
    return _RunTrace(story, verdict, file).write()


class _RunTrace:
    def __init__(self, story: Story, verdict: Verdict | None, file: TraceFile) -> None:
        self._story = story
        self._file = file
        self._tracks = Tracks(file)
        self._notes = Notes()
        self._drawn: dict[str, Drawn] = {}
        self._verdict = verdict
        _require_times(*(time for phase in story.phases for time in (phase.start_s, phase.end_s)))
        self._end_ns = story.last_ns
        findings = verdict.anomalies if verdict else {}
        self._examples = [
            (name, example)
            for name, each in findings.items()
            if not each.allowed
            for example in each.examples
        ]

    def write(self) -> TraceSummary:
        story = self._story
        positions = positions_of_findings(story, (example for _, example in self._examples))
        self._notes.read(partial(story.load_batches, positions))
        moments = [self._moment_ns(example) for _, example in self._examples]
        near = self._near(moments)
        self._draw_findings(moments)
        self._draw_faults()
        self._draw_clients_and_brokers(near, positions)
        self._count_commits()
        self._notes.read(self._count_positions)
        missing = [*story.timeline.missing, *self._notes.texts]
        summary = TraceSummary(self._file.events, self._drawn, list(dict.fromkeys(missing)))
        self._draw_phases(summary)
        self._file.finish(self._about(summary))
        summary.events = self._file.events
        return summary

    def _draw_clients_and_brokers(self, near: Intervals, positions: Sequence[Position]) -> None:
        story, tracks, drawn, read = self._story, self._tracks, self._drawn, self._notes.read
        paths = read(partial(record_paths, story, positions)) or RecordPaths()
        drawn["operations of processes"] = draw_processes(story, tracks, near, paths.ops, self._end_ns)
        drawn |= read(partial(draw_transactional_ids, story, tracks, near, self._end_ns)) or {}
        sampled = PartitionSample(story, near, self._end_ns)
        if (batches := read(partial(draw_partitions, story, tracks, sampled, paths.positions))) is not None:
            drawn["batches and markers"] = batches
        if (requests := read(partial(draw_changed_requests, story, tracks))) is not None:
            drawn["requests that a rule changed"] = requests
        drawn["polls of readers"] = draw_readers(story, tracks, near, paths.ops)
        flows = sum(
            tracks.flow(n, path.keys(sampled.markers), BY_IMPORTANCE) for n, path in enumerate(paths.paths, 1)
        )
        drawn["paths of records"] = Drawn(flows, max(flows, paths.total), "a sample is drawn")

    def _moment_ns(self, example: Example) -> float | None:
        moment_s = example.moment_s()
        if moment_s is not None:
            return moment_s * 1e9
        positions = positions_of_findings(self._story, [example])
        times_ns = self._notes.read(lambda: [self._story.time_of(position) for position in positions]) or []
        inside = (time_ns for time_ns in times_ns if time_ns is not None and 0 <= time_ns <= self._end_ns)
        return max(inside, default=None)

    def _near(self, moments: Iterable[float | None]) -> Intervals:
        known = [(moment, moment) for moment in moments if moment is not None]
        faults = [(fault.start_s * 1e9, self._healed_ns(fault)) for fault in self._story.faults]
        return Intervals((begin - AROUND_NS, end + AROUND_NS) for begin, end in [*known, *faults])

    def _healed_ns(self, fault: FaultReport) -> float:
        return self._end_ns if fault.end_s is None else fault.end_s * 1e9

    def _draw_findings(self, moments: Sequence[float | None]) -> None:
        """Draw a thread for each anomaly: its examples, each a slice of a millisecond.

        They have positions and names, and no sentences: these may quote the content of records. Examples of one moment
        follow each other, so that they need one lane.
        """
        threads: dict[str, list[Slice]] = {}
        for (name, example), moment in zip(self._examples, moments, strict=True):
            at_us = microseconds(moment or 0.0)
            operations = dict.fromkeys(operation.words for operation in example.operations)
            records = dict.fromkeys(part.position for part in (*example.records, *example.inputs))
            args = {
                "operations": ", ".join(operations) or None,
                "records": ", ".join(records) or None,
                "time_s": "not known" if moment is None else moment / 1e9,
            }
            threads.setdefault(name, []).append(Slice(name, at_us, at_us + 1_000, args, "terrible"))
        for thread, slices in threads.items():
            self._tracks.draw(FINDINGS, thread, _in_a_row(slices))
        self._drawn["examples of findings"] = Drawn(len(self._examples), len(self._examples))

    def _draw_faults(self) -> None:
        """Draw a thread for each kind of fault, from the injection to the heal."""
        threads: dict[str, list[Slice]] = {}
        for index, fault in enumerate(self._story.faults, 1):
            args = {
                "number": index,
                "target": fault.target,
                "acted": fault.acted,
                "evidence": fault.evidence,
                "healed": None if fault.end_s is not None else "no",
            }
            begin_us, end_us = microseconds(fault.start_s * 1e9), microseconds(self._healed_ns(fault))
            threads.setdefault(fault.fault, []).append(Slice(fault.struck, begin_us, end_us, args))
        for thread, slices in sorted(threads.items()):
            self._tracks.draw(FAULTS, thread, slices)
        self._drawn["faults"] = Drawn(len(self._story.faults), len(self._story.faults))

    def _draw_phases(self, summary: TraceSummary) -> None:
        """Draw the whole run, and its phases inside. It begins at 0, so that all viewers count from there."""
        args = {
            "verdict": self._verdict.validity.name.lower() if self._verdict else "none",
            "left out": "; ".join(summary.left_out) or "nothing",
            "missing": "; ".join(summary.missing) or None,
        }
        run = Slice("the run", 0, microseconds(self._end_ns), args)
        phases = [
            Slice(phase.name, microseconds(phase.start_s * 1e9), microseconds(phase.end_s * 1e9))
            for phase in self._story.phases
        ]
        others = [phase for phase in sorted(phases, key=lambda each: each.begin_us) if not run.nest(phase)]
        self._tracks.draw(PHASES, "phases", [run, *others])
        self._drawn["phases"] = Drawn(len(phases), len(phases))

    def _count_commits(self) -> None:
        """Draw the committed transactions in each second."""
        sums = series(self._story.timeline, self._end_ns / 1e9)
        width = sums.width_s
        values = [
            (second * width * 1_000_000, {"per second": sums.committed[second] / width})
            for second in sums.buckets
        ]
        self._tracks.count(IDS, "committed transactions", values)

    def _count_positions(self) -> None:
        """Draw once a second the lag of each group, and how far the last stable offset is from the end of the log."""
        lags, distance = by_second(self._story, self._end_ns / 1e9)
        counters = {f"lag of {text(group)}": lag for group, lag in lags.items()}
        for name, values in {**counters, "distance of the last stable offset": distance}.items():
            points = [(at_s * 1_000_000, {"records": value}) for at_s, value in enumerate(values.tolist())]
            self._tracks.count(PARTITIONS, name, points)

    def _about(self, summary: TraceSummary) -> dict[str, object]:
        return {
            "producer": "fencepost export",
            "run": text(self._verdict.name) if self._verdict else None,
            "verdict": self._verdict.validity.name.lower() if self._verdict else None,
            "in the trace": {
                kind: {"drawn": each.drawn, "total": each.total} for kind, each in self._drawn.items()
            },
            "left out": summary.left_out,
            "missing": [text(words) for words in summary.missing],
        }


def _require_times(*times_s: float) -> None:
    """Raise `UnreadableInput` unless all times are finite numbers."""
    try:
        wrong = [time_s for time_s in times_s if nanoseconds(time_s) is None]
    except TypeError as error:
        raise UnreadableInput(
            f"metadata.json cannot be read: a time of a phase is not a number: {error}"
        ) from error
    if wrong:
        raise UnreadableInput(f"metadata.json cannot be read: a time of a phase is wrong: {wrong[0]} s")


def _in_a_row(slices: Iterable[Slice]) -> list[Slice]:
    """Return slices that do not overlap: each begins at its time, or when the one before it ends."""
    ordered = sorted(slices, key=lambda each: each.begin_us)
    for before, each in pairwise(ordered):
        each.begin_us = max(each.begin_us, before.end_us)
        each.end_us = max(each.end_us, each.begin_us + 1_000)
    return ordered
