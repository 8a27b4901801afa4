"""Write the trace of a stored run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import IO

from harness.common.errors import UnreadableInput
from harness.record.table_reader import RunTables
from harness.record.timeline.load import load
from harness.record.timeline.model import Notes, Timeline
from harness.results.example import Example
from harness.results.verdict import FaultReport, Verdict
from harness.results.wording import number
from reports.export import broker_tracks, client_tracks
from reports.export.record_paths import BY_IMPORTANCE, Position, RecordPaths, positions_of, record_paths
from reports.export.sampling import Drawn, Intervals
from reports.export.trace_file import TraceFile
from reports.export.tracks import Slice, Tracks, microseconds, text
from reports.series import series
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


def write_trace(stream: IO[bytes], t: RunTables, verdict: Verdict | None) -> TraceSummary:
    """Write a run as Trace Event JSON, and return what is in it.

    Tables that are missing or damaged are noted. `verdict`: None if the run has none; then no findings are drawn.
    Raises `UnreadableInput` if the tables of partitions, journals or operations, or metadata.json are damaged.
    """
    file = TraceFile(stream)
    return _RunTrace(t, verdict, file).write()


class _RunTrace:
    def __init__(self, t: RunTables, verdict: Verdict | None, file: TraceFile) -> None:
        self._t = t
        self._file = file
        self._tracks = Tracks(file)
        self._notes = Notes()
        self._drawn: dict[str, Drawn] = {}
        self._verdict = verdict
        self._faults: Sequence[FaultReport] = verdict.faults if verdict else t.metadata.faults
        phases = t.metadata.phases
        _require_times(*(time for phase in phases for time in (phase.start_s, phase.end_s)))
        self._end_ns = phases[-1].end_s * 1e9 if phases else _last_ns(t)
        findings = verdict.anomalies if verdict else {}
        self._examples = [
            (name, example)
            for name, each in findings.items()
            if not each.allowed
            for example in each.examples
        ]

    def write(self) -> TraceSummary:
        positions = positions_of(self._t, (example for _, example in self._examples))
        times_ns = self._times_of_records(positions)
        moments = [self._moment_ns(example, times_ns) for _, example in self._examples]
        near = self._near(moments)
        timeline = load(self._t, self._end_ns / 1e9)
        self._draw_findings(moments)
        self._draw_faults()
        self._draw_clients_and_brokers(timeline, near, positions)
        self._count_commits(timeline)
        self._notes.read(partial(broker_tracks.count_positions, self._t, self._tracks, self._end_ns))
        missing = [*timeline.missing, *self._notes.texts]
        summary = TraceSummary(self._file.events, self._drawn, list(dict.fromkeys(missing)))
        self._draw_phases(summary)
        self._file.finish(self._about(summary))
        summary.events = self._file.events
        return summary

    def _draw_clients_and_brokers(
        self, timeline: Timeline, near: Intervals, positions: Sequence[Position]
    ) -> None:
        t, tracks, drawn = self._t, self._tracks, self._drawn
        paths = self._notes.read(partial(record_paths, t, positions)) or RecordPaths()
        drawn["operations of processes"] = client_tracks.draw_processes(
            t, timeline, tracks, near, paths.ops, self._faults, self._end_ns
        )
        ids = partial(client_tracks.draw_transactional_ids, t, timeline, tracks, near, self._end_ns)
        drawn |= self._notes.read(ids) or {}
        partitions = broker_tracks.PartitionTracks(t, tracks, near, self._end_ns)
        if (batches := self._notes.read(partial(partitions.draw, paths.positions))) is not None:
            drawn["batches and markers"] = batches
        if (
            requests := self._notes.read(partial(broker_tracks.draw_changed_requests, t, tracks))
        ) is not None:
            drawn["requests that a rule changed"] = requests
        drawn["polls of readers"] = client_tracks.draw_readers(t, tracks, near, paths.ops)
        flows = sum(
            tracks.flow(n, path.keys(partitions.markers), BY_IMPORTANCE)
            for n, path in enumerate(paths.paths, 1)
        )
        drawn["paths of records"] = Drawn(flows, max(flows, paths.total), "a sample is drawn")

    def _times_of_records(self, positions: Sequence[Position]) -> dict[Position, int]:
        """Return the times of these records, in nanoseconds since the run began."""
        rows = self._notes.read(
            lambda: self._t.rows(
                "records", tp={tp for tp, _ in positions}, offset={offset for _, offset in positions}
            )
        )
        timed = {(row["tp"], row["offset"]): self._t.at_ns(row["timestamp_ms"]) for row in rows or ()}
        return {
            at: time_ns
            for at, time_ns in timed.items()
            if time_ns is not None and 0 <= time_ns <= self._end_ns
        }

    def _moment_ns(self, example: Example, times_ns: dict[Position, int]) -> float | None:
        moment_s = example.moment_s()
        if moment_s is not None:
            return moment_s * 1e9
        own = (times_ns.get(at) for at in positions_of(self._t, [example]))
        return max((time_ns for time_ns in own if time_ns is not None), default=None)

    def _near(self, moments: Iterable[float | None]) -> Intervals:
        known = [(moment, moment) for moment in moments if moment is not None]
        faults = [(fault.start_s * 1e9, self._healed_ns(fault)) for fault in self._faults]
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
        for index, fault in enumerate(self._faults, 1):
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
        self._drawn["faults"] = Drawn(len(self._faults), len(self._faults))

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
            for phase in self._t.metadata.phases
        ]
        others = [phase for phase in sorted(phases, key=lambda each: each.begin_us) if not run.nest(phase)]
        self._tracks.draw(PHASES, "phases", [run, *others])
        self._drawn["phases"] = Drawn(len(phases), len(phases))

    def _count_commits(self, timeline: Timeline) -> None:
        """Draw the committed transactions in each second."""
        sums = series(timeline, self._end_ns / 1e9)
        width = sums.width_s
        values = [
            (second * width * 1_000_000, {"per second": sums.committed[second] / width})
            for second in sums.buckets
        ]
        self._tracks.count(client_tracks.IDS, "committed transactions", values)

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


def _last_ns(t: RunTables) -> float:
    """Return the end of the last operation, for a run that left no phases."""
    last = 1_000_000_000
    for batch in t.batches("ops", ("call_ns", "return_ns")):
        for name in ("call_ns", "return_ns"):
            values = batch[name].drop_null().to_numpy()
            last = max(last, int(values.max()) if len(values) else 0)
    return float(last)
