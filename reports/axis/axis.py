"""One time axis for a run: panes of curves, lanes of bars, and the lines of logs, as data that a browser draws.

The size is bounded: panes have at most `MOST_POINTS` points, and there are at most `MOST_LANES` lanes of `MOST_BARS`
bars. The page draws the same run as SVG for readers without JavaScript (`reports.charts.over_time`).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow.compute as pc

from harness.record.protocol_journal import JournaledRequest
from harness.record.table_reader import RunTables
from harness.record.timeline.model import Notes, Timeline
from harness.results.example import Example
from harness.results.run_metadata import RunPhase
from harness.results.verdict import FaultReport
from harness.results.wording import printable
from reports.axis import brokers, pipeline
from reports.axis.lane import AxisBar, Lane, LaneGroup, choose
from reports.axis.pane import Line, Pane
from reports.axis.partition_panes import partition_panes
from reports.known_secrets import known_secrets
from reports.series import Series, into_buckets
from reports.story.logs import TimedLogLine, near, read_logs
from reports.story.subjects import ShownFinding, subjects

MOST_POINTS = 1200
MOST_LOG_LINES = 500
"""The report shows the text of at most this many lines of logs."""
MOST_FINDINGS = 200
ACTED, DID_NOT_ACT = "fault", "fault that did not act"
FINDING, DOES_NOT_DECIDE, PHASE = "finding", "finding that does not decide", "phase"


@dataclass(frozen=True)
class TimeAxis:
    """The data of the axis. Times count from the start of the run: in seconds for panes, in milliseconds for bars."""

    from_s: float
    to_s: float
    panes: Sequence[Pane] = ()
    lanes: Sequence[Lane] = ()
    left_out: Counter[str] = field(default_factory=Counter)  # by group, the lanes that are not shown
    log_lines: Sequence[TimedLogLine] = ()  # the lines of logs whose text the report shows
    more_log_lines: int = 0  # further warnings and errors in the shown time
    missing: Sequence[str] = ()  # notes about what cannot be read

    @property
    def empty(self) -> bool:
        """True if there is nothing to draw."""
        return not any(
            lane.group not in (LaneGroup.PHASES, LaneGroup.FAULTS) for lane in self.lanes
        ) and not any(value for pane in self.panes for line in pane.lines for value in line.values)

    def as_json(self) -> dict[str, Any]:
        """Return the data that the page's script draws."""
        return {
            "from_s": self.from_s,
            "to_s": self.to_s,
            "panes": [pane.as_json() for pane in self.panes],
            "lanes": [lane.as_json() for lane in self.lanes],
            "left_out": dict(self.left_out),
        }


def time_axis(
    t: RunTables,
    *,
    timeline: Timeline,
    seconds: Series,
    faults: Sequence[FaultReport] = (),
    phases: Sequence[RunPhase] = (),
    examples: Iterable[Example] = (),
    findings: Sequence[ShownFinding] = (),
    changed: Sequence[JournaledRequest] = (),
) -> TimeAxis:
    """Return the axis of a run. What cannot be read is noted and left out.

    Args:
        t: the tables of the run
        timeline: its transactions and commits
        seconds: their sums by second
        faults: its faults, in the order of their numbers
        phases: its phases
        examples: the examples that the report shows
        findings: the same examples, with their place in the report and their time
        changed: the requests that the report shows as changed by rules
    """
    notes = Notes()
    named = subjects(examples)
    from_s, to_s = shown_span(timeline, seconds, faults, findings, phases)
    options = t.settings.get("options")
    secrets = known_secrets(t.folder, options if isinstance(options, Mapping) else {}, {})
    start_ms = t.wall_ms_at_zero
    logs, log_notes = read_logs(t.folder, start_ms, secrets) if start_ms is not None else ([], [])
    logs = [line for line in logs if from_s <= line.time_s <= to_s]
    shown = near(logs, _moments(faults, findings), MOST_LOG_LINES)

    def read(load: Callable[[], Iterator[Lane]]) -> list[Lane]:
        return notes.read(lambda: list(load())) or []

    lanes, left_out = choose(
        [
            *phase_lane(phases),
            *fault_lanes(faults),
            *finding_lanes(findings),
            *pipeline.changed_requests(changed, named),
            *read(partial(pipeline.transactions, timeline, named)),
            *read(partial(pipeline.members, t, named)),
            *read(partial(brokers.leaders, t, named)),
            *brokers.log_lanes(logs),
        ]
    )
    series = into_buckets(seconds, MOST_POINTS)
    of_partitions = notes.read(partial(partition_panes, t, _points(series), to_s)) or []
    return TimeAxis(
        from_s,
        to_s,
        [*panes(series), *of_partitions],
        lanes,
        left_out,
        shown,
        len(logs) - len(shown),
        list(dict.fromkeys([*log_notes, *notes.texts])),
    )


def _points(series: Series) -> range:
    """Return the begins of the buckets, in seconds."""
    buckets, width_s = series.buckets, series.width_s
    return range(buckets.start * width_s, buckets.stop * width_s, width_s)


def shown_span(
    timeline: Timeline,
    series: Series,
    faults: Sequence[FaultReport],
    findings: Sequence[ShownFinding] = (),
    phases: Sequence[RunPhase] = (),
) -> tuple[float, float]:
    """Return the interval from the start of the first transaction or fault to the end, in seconds since the run began.

    Before that, the run starts the cluster and the processes. A finding may last longer than the last transaction:
    nothing was committed any more.
    """
    ended_s = max((phase.end_s for phase in phases), default=0.0)
    last_s = [min(finding.span[1], ended_s) for finding in findings if finding.span is not None]
    first_ns = pc.min(timeline.transactions["begin_ns"]).as_py()
    first_s = [] if first_ns is None else [max(float(first_ns // 1_000_000_000), 0.0)]
    begin_s = float(series.buckets.start * series.width_s)
    begin_s = min([begin_s, *first_s, *(fault.start_s for fault in faults)])
    return begin_s, max(series.end_s, begin_s + 1.0, *last_s)


def panes(series: Series) -> list[Pane]:
    """Return throughput and commit latency."""
    width = series.width_s
    at_s = [bucket * width for bucket in series.buckets]
    edges = [*at_s, min(at_s[-1] + width, max(series.end_s, at_s[-1]))]

    def rate(name: str, style: str, counts: Counter[int]) -> Pane:
        values = [round(counts[bucket] / width, 2) for bucket in series.buckets]
        return Pane(name, "/s", edges, [Line(name, style, [*values, values[-1]])])

    if not series.outcomes:
        return [rate("Records written per second", "records", series.records)] if series.records else []
    middle_s = [bucket_s + width / 2 for bucket_s in at_s]
    quantiles = [
        Line(name, style, [_rounded(series.quantile_ms(bucket, share)) for bucket in series.buckets])
        for name, style, share in (("median", "ok", 0.5), ("99 %", "info", 0.99))
    ]
    return [
        rate("Committed transactions per second", "ok", series.committed),
        rate("Committed records per second", "records", series.records),
        Pane("Commit latency", "ms", middle_s, quantiles, log_scale=True, steps=False),
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def phase_lane(phases: Sequence[RunPhase]) -> Iterator[Lane]:
    """Yield the lane of the run's phases, if they are known."""
    bars = [
        AxisBar(round(phase.start_s * 1000), round(phase.end_s * 1000), PHASE, text=printable(phase.name, 80))
        for phase in phases
    ]
    if bars:
        yield Lane(LaneGroup.PHASES, "phases", bars)


def fault_lanes(faults: Sequence[FaultReport]) -> Iterator[Lane]:
    """Yield as few lanes as possible in which no two faults overlap."""
    rows: list[list[AxisBar]] = []
    for number, fault in enumerate(faults, 1):
        begin = round(fault.start_s * 1000)
        end = None if fault.end_s is None else round(fault.end_s * 1000)
        kind = ACTED if fault.acted else DID_NOT_ACT
        text = f"{number} {printable(fault.fault, 60)}: {printable(fault.struck or fault.target, 200)}"
        bar = AxisBar(begin, end, kind, text=text, anchor=f"fault-{number}")
        free = (row for row in rows if row[-1].to_ms is not None and row[-1].to_ms <= begin)
        row = next(free, None)
        if row is None:
            rows.append([bar])
        else:
            row.append(bar)
    for number, row in enumerate(rows):
        # Faults are why a reader looks at the axis, so that their lanes come before those of findings.
        yield Lane(LaneGroup.FAULTS, "faults" if not number else "", row, of_finding=True)


def finding_lanes(findings: Sequence[ShownFinding]) -> Iterator[Lane]:
    """Yield a lane for each anomaly, with its examples."""
    by_anomaly: dict[str, list[AxisBar]] = {}
    for finding in findings[:MOST_FINDINGS]:
        if finding.span is not None:
            begin, end = (round(time_s * 1000) for time_s in finding.span)
            kind = FINDING if finding.decides else DOES_NOT_DECIDE
            bar = AxisBar(begin, end, kind, text=printable(finding.sentence, 300), anchor=finding.anchor)
            by_anomaly.setdefault(finding.anomaly, []).append(bar)
    for anomaly, bars in by_anomaly.items():
        yield Lane(
            LaneGroup.FINDINGS,
            printable(anomaly, 60),
            sorted(bars, key=lambda bar: bar.from_ms),
            of_finding=True,
        )


def _moments(faults: Sequence[FaultReport], findings: Sequence[ShownFinding]) -> list[float]:
    times = [time_s for fault in faults for time_s in (fault.start_s, fault.end_s)]
    times += [time_s for finding in findings for time_s in finding.span or ()]
    return [time_s for time_s in times if time_s is not None]


def embed(data: object) -> str:
    """Return data as JSON for a `script` element of HTML. No text in the data can end the element."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
