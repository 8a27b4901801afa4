"""One time axis for a run: panes of curves, lanes of bars, and the lines of logs, as data that a browser draws.

The size is bounded: panes have at most `MOST_POINTS` points, and there are at most `MOST_LANES` lanes of `MOST_BARS`
bars. The page draws the same run as SVG for readers without JavaScript (`reports.pictures.static.over_time`).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.common.wording import printable
from harness.results.example import Example
from reports.pictures.lanes import MOST_BARS, MOST_LANES, AxisBar, Lane, LaneGroup, bars, choose, milliseconds
from reports.series import Series, into_buckets
from reports.story.logs import TimedLogLine, near
from reports.story.model import Ending, Kind, Notes, Span
from reports.story.points import changed_request_spans
from reports.story.progress import RunFlow, progress
from reports.story.roles import leader_epochs, lives, ownership
from reports.story.run import Story
from reports.story.subjects import ShownFinding, Subjects, subjects

MOST_POINTS = 1200
MOST_LOG_LINES = 500
"""The report shows the text of at most this many lines of logs."""
MOST_FINDINGS = 200
MOST_GROUPS = 6
MOST_PARTITIONS = 12
"""At most this many partitions that no finding names have a lane."""
MOST_MARKS = 200
"""A lane of a log has at most this many marks."""
MOST_MARK_TEXT = 160
STYLES = ("ok", "records", "fail", "band", "info", "abort")
NOT_KNOWN = "not known"
OWNS, UP, PAUSED = "owns partitions", "up", "paused"
KILLED, ENDED = "killed", "ended"
CHANGED, DELIVERED = "changed request", "delivered to a broker"
EPOCH, NEW_LEADER, NEW_COORDINATOR = "a leader epoch", "new leader", "new coordinator"
ACTED, DID_NOT_ACT = "fault", "fault that did not act"
FINDING, DOES_NOT_DECIDE, PHASE = "finding", "finding that does not decide", "phase"


@dataclass(frozen=True)
class Line:
    """A curve of a pane: one value for each point; None: there is none."""

    name: str
    style: str  # the name of its colour in the style sheet
    values: Sequence[float | None]

    def as_json(self) -> dict[str, object]:
        """Return the curve as JSON."""
        return {"name": self.name, "style": self.style, "values": self.values}


@dataclass(frozen=True)
class Pane:
    """Curves over the same points in time."""

    name: str
    unit: str  # of the values: "/s", "ms", "records", "offsets"
    at_s: Sequence[float]
    lines: Sequence[Line]
    log_scale: bool = False
    steps: bool = True  # a value holds until the next point

    def as_json(self) -> dict[str, object]:
        """Return the pane as JSON."""
        return {
            "name": self.name,
            "unit": self.unit,
            "log": self.log_scale,
            "steps": self.steps,
            "at": self.at_s,
            "lines": [line.as_json() for line in self.lines],
        }


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
    story: Story,
    *,
    examples: Iterable[Example] = (),
    findings: Sequence[ShownFinding] = (),
) -> TimeAxis:
    """Return the axis of a run. What cannot be read is noted and left out.

    Args:
        story: the story of the run
        examples: the examples that the report shows
        findings: the same examples, with their place in the report and their time
    """
    notes = Notes()
    named = subjects(examples)
    from_s, to_s = shown_interval(story, findings)
    logs = [line for line in story.log_lines.lines if from_s <= line.time_s <= to_s]
    shown = near(logs, _moments(story, findings), MOST_LOG_LINES)

    def read(lanes: Callable[[Story, Subjects], Iterator[Lane]]) -> list[Lane]:
        return notes.read(lambda: list(lanes(story, named))) or []

    lanes, left_out = choose(
        [
            *phase_lane(story),
            *fault_lanes(story),
            *finding_lanes(findings),
            *read(process_lanes),
            *read(request_lanes),
            *read(transaction_lanes),
            *read(member_lanes),
            *read(leader_lanes),
            *log_lanes(logs),
        ]
    )
    series = into_buckets(story.seconds, MOST_POINTS)
    going_on = notes.read(lambda: progress(story, _points(series), to_s)) or RunFlow()
    return TimeAxis(
        from_s,
        to_s,
        panes(series, going_on),
        lanes,
        left_out,
        shown,
        len(logs) - len(shown),
        list(dict.fromkeys([*story.log_lines.notes, *notes.texts])),
    )


def _points(series: Series) -> range:
    """Return the begins of the buckets, in seconds."""
    buckets, width_s = series.buckets, series.width_s
    return range(buckets.start * width_s, buckets.stop * width_s, width_s)


def shown_interval(story: Story, findings: Sequence[ShownFinding] = ()) -> tuple[float, float]:
    """Return the interval from the start of the first transaction or fault to the end, in seconds since the run began.

    Before that, the run starts the cluster and the processes. A finding may last longer than the last transaction:
    nothing was committed any more.
    """
    series = story.seconds
    ended_s = max((phase.end_s for phase in story.phases), default=0.0)
    last_s = [min(finding.span[1], ended_s) for finding in findings if finding.span is not None]
    first_ns = pc.min(story.timeline.transactions["begin_ns"]).as_py()
    first_s = [] if first_ns is None else [max(float(first_ns // 1_000_000_000), 0.0)]
    begin_s = float(series.buckets.start * series.width_s)
    begin_s = min([begin_s, *first_s, *(fault.start_s for fault in story.faults)])
    return begin_s, max(series.end_s, begin_s + 1.0, *last_s)


# Panes


def panes(series: Series, going_on: RunFlow) -> list[Pane]:
    """Return throughput and backlog, commit latency, the lag of each group, and the last stable offset."""
    width = series.width_s
    at_s = [bucket * width for bucket in series.buckets]
    edges = [*at_s, min(at_s[-1] + width, max(series.end_s, at_s[-1]))]

    def rates(counts: Iterable[float]) -> list[float | None]:
        return _closed([round(count / width, 2) for count in counts])

    def over(name: str, unit: str, lines: Mapping[str, np.ndarray], styles: Sequence[str] = STYLES) -> Pane:
        drawn = zip(lines.items(), styles, strict=False)
        closed = [
            Line(printable(line, 40), style, _closed(values.tolist())) for (line, values), style in drawn
        ]
        return Pane(name, unit, [*at_s, at_s[-1] + width], closed)

    found = []
    if series.outcomes:
        committed = rates(series.committed[bucket] for bucket in series.buckets)
        found.append(
            Pane("Committed transactions per second", "/s", edges, [Line("transactions", "ok", committed)])
        )
    if series.outcomes or series.records or going_on.inputs is not None:
        outputs = Line("outputs", "records", rates(series.records[bucket] for bucket in series.buckets))
        name = "Committed records per second" if series.outcomes else "Records written per second"
        if going_on.inputs is not None:
            name, inputs = (
                "Inputs and outputs per second",
                Line("inputs", "ok", rates(going_on.inputs.tolist())),
            )
        found.append(Pane(name, "/s", edges, [outputs] if going_on.inputs is None else [inputs, outputs]))
    if going_on.backlog is not None:
        name = "Backlog: inputs that no committed offset has passed"
        found.append(over(name, "records", {"inputs": going_on.backlog}, ("fail",)))
    if series.outcomes:
        quantiles = [
            Line(name, style, [_rounded(series.quantile_ms(bucket, share)) for bucket in series.buckets])
            for name, style, share in (("median", "ok", 0.5), ("99 %", "info", 0.99))
        ]
        middle_s = [bucket_s + width / 2 for bucket_s in at_s]
        found.append(Pane("Commit latency", "ms", middle_s, quantiles, log_scale=True, steps=False))
    if len(going_on.lags) > 1 or (
        going_on.lags and going_on.backlog is None
    ):  # of one group, it is the backlog
        worst_first = sorted(going_on.lags, key=lambda group: -int(going_on.lags[group].max()))[:MOST_GROUPS]
        found.append(
            over("Lag of each group", "records", {group: going_on.lags[group] for group in worst_first})
        )
    if going_on.unstable is not None:
        name = "Last stable offset behind the end, worst partition"
        found.append(over(name, "offsets", {"worst partition": going_on.unstable}, ("info",)))
    return [pane for pane in found if any(value for line in pane.lines for value in line.values)]


def _closed(values: Sequence[float]) -> list[float | None]:
    """Return the values with the last one twice, so that its step has an end."""
    return [*values, values[-1]]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


# Lanes


def phase_lane(story: Story) -> Iterator[Lane]:
    """Yield the lane of the run's phases, if they are known."""
    phase_bars = [
        AxisBar(round(phase.start_s * 1000), round(phase.end_s * 1000), PHASE, text=printable(phase.name, 80))
        for phase in story.phases
    ]
    if phase_bars:
        yield Lane(LaneGroup.PHASES, "phases", phase_bars)


def fault_lanes(story: Story) -> Iterator[Lane]:
    """Yield as few lanes as possible in which no two faults overlap."""
    rows: list[list[AxisBar]] = []
    for number, fault in enumerate(story.faults, 1):
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
    counts = {finding.anomaly: finding.count for finding in findings}
    for anomaly, of_anomaly in by_anomaly.items():
        part = f" ({len(of_anomaly)} of {counts[anomaly]:,})" if counts[anomaly] > len(of_anomaly) else ""
        yield Lane(
            LaneGroup.FINDINGS,
            printable(anomaly, 60) + part,
            sorted(of_anomaly, key=lambda bar: bar.from_ms),
            of_finding=True,
        )


def process_lanes(story: Story, named: Subjects) -> Iterator[Lane]:
    """Yield a lane for each process: when it was up and when it was paused, and how it ended."""
    for life in lives(story):
        own = [AxisBar(milliseconds(life.from_ns), _until(life), UP, text=_life_words(life))]
        for point, following in zip(life.points, [*life.points[1:], None], strict=False):
            at_ms = milliseconds(point.at_ns or 0)
            if point.kind is Kind.FAULT:
                resumed = following is not None and following.kind is Kind.HEAL
                to_ms = (
                    milliseconds(following.at_ns or 0) if resumed and following is not None else _until(life)
                )
                own.append(AxisBar(at_ms, to_ms, PAUSED, text=PAUSED))
            elif point.kind is Kind.DEATH and not point.inferred:
                kind = KILLED if point.words == KILLED else ENDED
                own.append(AxisBar(at_ms, at_ms, kind, text=point.words))
        yield Lane(
            LaneGroup.PROCESSES, printable(life.actor, 80), own, of_finding=life.actor in named.processes
        )


def _life_words(life: Span) -> str:
    happened = ", ".join(f"{point.words} at {(point.at_ns or 0) / 1e9:,.3f} s" for point in life.points)
    return (
        f"{UP}{': ' if happened else ''}{happened}{' (not all times were observed)' if life.inferred else ''}"
    )


def request_lanes(story: Story, named: Subjects) -> Iterator[Lane]:
    """Yield a lane for each client: its changed requests from sent to answered, and a mark for each delivery."""
    by_client: dict[str, list[AxisBar]] = {}
    of_findings = set()
    for request in changed_request_spans(story.protocol):
        name = printable(request.actor or NOT_KNOWN, 80)
        lane_bars = by_client.setdefault(name, [])
        if named.transactional_ids & set(request.ids):
            of_findings.add(name)
        text = printable(f"{request.words}: {'; '.join(point.words for point in request.points)}", 400)
        lane_bars.append(AxisBar(milliseconds(request.from_ns), _until(request), CHANGED, text=text))
        for point in request.points:
            if point.kind is Kind.DELIVERED:
                at_ms = milliseconds(point.at_ns or 0)
                lane_bars.append(AxisBar(at_ms, at_ms, DELIVERED, text=text))
    for name, lane_bars in by_client.items():
        lane_bars.sort(key=lambda bar: bar.from_ms)
        yield Lane(LaneGroup.REQUESTS, name, lane_bars, of_finding=name in of_findings)


def _until(span: Span) -> int | None:
    return None if span.to_ns is None else milliseconds(span.to_ns)


def transaction_lanes(story: Story, named: Subjects) -> Iterator[Lane]:
    """Yield a lane for each transactional id: those of findings first, then those with the most transactions that were
    not committed.

    A transaction without an id is in the lane of its process.
    """
    table = story.timeline.transactions
    if not len(table):
        return
    ids = pc.fill_null(pc.coalesce(table["transactional_id"], table["process"]), NOT_KNOWN)
    encoded = pc.dictionary_encode(ids).combine_chunks()
    names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)
    endings = tuple(map(str, Ending))
    ending = _codes(table["ending"], endings)
    not_committed = np.bincount(codes, ending != endings.index(Ending.COMMITTED), minlength=len(names))
    of_finding = np.array([name in named.transactional_ids for name in names])
    order = np.lexsort((-np.bincount(codes, minlength=len(names)), -not_committed, ~of_finding))
    begin = pc.fill_null(table["begin_ns"], 0).to_numpy()
    end = pc.fill_null(table["end_ns"], -1).to_numpy()
    for place, index in enumerate(order):
        name, own = printable(names[index], 80), bool(of_finding[index])
        if place >= MOST_LANES:  # it is only counted
            yield Lane(LaneGroup.TRANSACTIONS, name, (), own)
            continue
        rows = np.flatnonzero(codes == index)
        texts = _texts(table, rows, named) if len(rows) <= MOST_BARS else []
        lane_bars = bars(begin[rows], end[rows], endings, ending[rows], texts)
        yield Lane(LaneGroup.TRANSACTIONS, name, lane_bars, own)


def _texts(table: pa.Table, rows: np.ndarray, named: Subjects) -> list[str | None]:
    """Return the name of each transaction, and the error that its process got."""
    texts: list[str | None] = []
    for row in table.select(["name", "error", "fenced"]).take(pa.array(rows)).to_pylist():
        words = [row["name"] or ""]
        words += ["of a finding"] if row["name"] in named.operations else []
        words += ["fenced"] if row["fenced"] else []
        words += [printable(row["error"], 80)] if row["error"] else []
        texts.append(", ".join(filter(None, words)) or None)
    return texts


def _codes(values: pa.ChunkedArray, names: Sequence[str]) -> np.ndarray:
    """Return for each value its index in `names`; a value that is not there counts as the last name."""
    codes = pc.fill_null(pc.index_in(values, pa.array(names)), len(names) - 1)
    return np.asarray(codes, np.int64)


def member_lanes(story: Story, named: Subjects) -> Iterator[Lane]:
    """Yield a lane for each process of a group: the partitions that it owned."""
    by_member: dict[tuple[str, str], list[Span]] = {}
    for span in ownership(story):
        by_member.setdefault((span.actor, span.subject), []).append(span)
    for (journal, group), spans in by_member.items():
        of_group = f" (group {printable(group, 60)})" if group else ""
        lane_bars = _bars(spans, OWNS, [f"{span.words}{of_group}" for span in spans])
        yield Lane(
            LaneGroup.MEMBERS, printable(journal, 80), lane_bars, of_finding=journal in named.processes
        )


def leader_lanes(story: Story, named: Subjects) -> Iterator[Lane]:
    """Yield a lane for the changes of all leaders, and two for those of coordinators. Then yield a lane of leader
    epochs for the changed partitions that a finding names, and for those with the most changes.
    """
    epochs = leader_epochs(story)
    for name, kind, of in (
        ("leaders of partitions", NEW_LEADER, "leaders"),
        ("coordinators of groups", NEW_COORDINATOR, "groups"),
        ("coordinators of transactions", NEW_COORDINATOR, "transactions"),
    ):
        changes = [span for span in epochs.get(of, ()) if span.subject]
        if changes:
            texts = [f"{span.actor}: {span.subject}" for span in changes]
            yield Lane(LaneGroup.LEADERS, name, _bars(changes, kind, texts, marks=True))
    by_partition: dict[str, list[Span]] = {}
    for span in epochs.get("leaders", ()):
        by_partition.setdefault(span.actor, []).append(span)
    changed = sorted(
        (name for name, spans in by_partition.items() if len(spans) > 1),
        key=lambda name: (-len(by_partition[name]), name),
    )
    of_findings = [name for name in changed if name in named.partitions]
    others = [name for name in changed if name not in of_findings]
    for name in [*of_findings, *others[:MOST_PARTITIONS]]:
        spans = by_partition[name]
        lane_bars = _bars(spans, EPOCH, [span.words for span in spans])
        yield Lane(LaneGroup.LEADERS, printable(name, 80), lane_bars, of_finding=name in of_findings)


def _bars(
    spans: Sequence[Span], kind: str, texts: Sequence[str | None], *, marks: bool = False
) -> list[AxisBar]:
    """Return the bars of spans of one kind. `marks`: their starts only."""
    begin = np.array([span.from_ns for span in spans], np.int64)
    end = np.array([-1 if span.to_ns is None else span.to_ns for span in spans], np.int64)
    end = begin if marks else np.maximum(end, -1)
    return bars(begin, end, (kind,), np.zeros(len(spans), np.int64), texts)


def log_lanes(lines: Sequence[TimedLogLine]) -> Iterator[Lane]:
    """Yield a lane of marks for each log."""
    levels = ("error", "warning")
    by_source: dict[str, list[TimedLogLine]] = {}
    for line in lines:
        by_source.setdefault(line.source, []).append(line)
    for source, own in sorted(by_source.items()):
        at_ns = np.array([round(line.time_s * 1e9) for line in own], np.int64)
        codes = np.array([levels.index(line.level) for line in own])
        texts = [line.text[:MOST_MARK_TEXT] for line in own]
        yield Lane(
            LaneGroup.LOGS, printable(source, 80), bars(at_ns, at_ns, levels, codes, texts, MOST_MARKS)
        )


def _moments(story: Story, findings: Sequence[ShownFinding]) -> list[float]:
    times = [time_s for fault in story.faults for time_s in (fault.start_s, fault.end_s)]
    times += [time_s for finding in findings for time_s in finding.span or ()]
    return [time_s for time_s in times if time_s is not None]


def embed(data: object) -> str:
    """Return data as JSON for a `script` element of HTML. No text in the data can end the element."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
