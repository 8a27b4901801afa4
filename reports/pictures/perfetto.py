"""The trace of a run for Perfetto: findings, faults, processes, transactions, partitions, readers, and phases."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.common.errors import UnreadableInput
from harness.common.wording import number
from harness.model.vocabulary import Outcome, worker_of
from harness.results.example import Example
from harness.results.verdict import FaultReport, Verdict
from reports.pictures.tracks import Mark, Slice, TraceFile, Tracks, microseconds, text
from reports.series import series
from reports.story.model import TICK_NS, Ending, Kind, Notes
from reports.story.points import changed_requests_of_run
from reports.story.progress import by_second
from reports.story.roles import process_at
from reports.story.run import Position, Story
from reports.story.samples import (
    BY_IMPORTANCE,
    Drawn,
    Intervals,
    PartitionSample,
    RecordPaths,
    Sampler,
    completions,
    journals_by_role,
    positions_of_findings,
    record_paths,
    records_by_poll,
    sample,
    sample_operations,
)
from reports.under_way import nanoseconds

PARTITIONS, REQUESTS = "partitions", "requests that a rule changed"
NOT_KNOWN = "not known"
_FATES = {"commit": ("committed records", "good"), "abort": ("aborted records", "bad")}
_MS_US = 1_000
PROCESSES, IDS, READERS = "processes", "transactional ids", "readers"
MOST_OPERATIONS = MOST_TRANSACTIONS = 100_000
MOST_POLLS = 40_000
SHORTEST_NS = 1_000_000
"""The length of a slice whose end is not known."""
_OUTCOME_COLORS = {Outcome.OK.value: "good", Outcome.FAIL.value: "bad", Outcome.INFO.value: "yellow"}
_ENDING_COLORS = {
    Ending.COMMITTED: "good",
    Ending.ABORTED_ON_PURPOSE: "grey",
    Ending.ABORTED: "bad",
    Ending.FAILED: "bad",
    Ending.UNKNOWN: "yellow",
    Ending.OPEN: "terrible",
}
FINDINGS, FAULTS, PHASES = "findings", "faults", "phases of the run"
AROUND_NS = 1_000_000_000
"""Rows at most this long before or after a fault or a finding are near to it."""


def draw_processes(
    story: Story, tracks: Tracks, near: Intervals, wanted: Collection[int], end_ns: float
) -> Drawn:
    """Draw a thread for each worker and feeder: its operations; inside a transaction, its polls and its commit.

    An instance of a custom pipeline records no operations. Its thread has the transactions of its transactional ids,
    as far as the description of the pipeline or the requests of the instance say which these are. The faults of a
    worker or an instance are on another lane of its thread.

    A feeder sends without waiting for responses. So that it needs one lane, its slices end when the next one begins.
    """
    roles = journals_by_role(story, "worker", "feeder")
    rows, drawn = sample_operations(story, roles, MOST_OPERATIONS, near, wanted)
    threads: dict[str, list[Slice]] = defaultdict(list)
    for journal, own in rows.items():
        is_feeder = roles[journal] == "feeder"
        threads[journal] = (
            _one_after_the_other([_operation(row) for row in own]) if is_feeder else _with_parts(own)
        )
    if story.by_logs:
        table = story.timeline.transactions
        observed = pc.is_in(
            table["transactional_id"], value_set=pa.array(sorted(story.processes_by_id), pa.string())
        )
        known = table.filter(pc.or_(table["process"].is_valid(), observed))
        transactions = sample(lambda: iter([known]), "begin_ns", Sampler(MOST_TRANSACTIONS, near))
        for row in [] if transactions is None else transactions.to_pylist():
            own_id = row["transactional_id"] or ""
            thread = process_at(story, own_id, row["begin_ns"]) or row["process"] or NOT_KNOWN
            threads[thread].append(_transaction(row, end_ns))
    for fault in story.faults:
        if (worker := fault.details.get("worker")) is not None:
            thread = worker if worker in roles or worker in threads else worker_of(worker)
            healed_ns = end_ns if fault.end_s is None else fault.end_s * 1e9
            begin_us, end_us = microseconds(fault.start_s * 1e9), microseconds(healed_ns)
            threads[thread].append(Slice(f"fault: {fault.struck}", begin_us, end_us))
    for thread, slices in sorted(threads.items()):
        tracks.draw(PROCESSES, thread, slices)
    return drawn


def draw_readers(story: Story, tracks: Tracks, near: Intervals, wanted: Collection[int]) -> Drawn:
    """Draw a thread for each observer and final reader: its polls, with the number of records that they returned."""
    roles = journals_by_role(story, "observer", "final")
    rows, drawn = sample_operations(story, roles, MOST_POLLS, near, wanted)
    counts = records_by_poll(story, [row["op"] for own in rows.values() for row in own])
    for journal, own in sorted(rows.items()):
        tracks.draw(READERS, journal, [_operation(row, records=counts.get(row["op"])) for row in own])
    return drawn


def draw_transactional_ids(story: Story, tracks: Tracks, near: Intervals, end_ns: float) -> dict[str, Drawn]:
    """Draw a thread for each transactional id: its transactions, and the coordinator's part of each, from
    PrepareCommit or PrepareAbort to Complete.

    The coordinator's part is inside its transaction, if it fits. Else it is on another lane: a client may get the
    response to its commit before the transaction is complete.
    """
    transactions = Sampler(MOST_TRANSACTIONS, near)
    kept = sample(lambda: iter([story.timeline.transactions]), "begin_ns", transactions)
    by_thread: dict[str, list[Slice]] = defaultdict(list)
    for row in [] if kept is None else kept.to_pylist():
        thread = row["transactional_id"] or row["process"] or "no transactional id"
        by_thread[thread].append(_transaction(row, end_ns))
    parts = Sampler(MOST_TRANSACTIONS, near)
    kept_parts = (
        sample(lambda: iter([completions(story)]), "prepared_ns", parts) if story.states_stored else None
    )
    parts_by_thread: dict[str, list[Slice]] = defaultdict(list)
    for row in [] if kept_parts is None else kept_parts.to_pylist():
        parts_by_thread[row["transactional_id"]].append(_completion(row, end_ns))
    for thread in sorted(by_thread.keys() | parts_by_thread.keys()):
        roots = sorted(by_thread[thread], key=lambda each: each.begin_us)
        parts_in_order = sorted(parts_by_thread[thread], key=lambda each: each.begin_us)
        tracks.draw(IDS, thread, [*roots, *_nest(roots, parts_in_order)])
    return {
        "transactions": Drawn(transactions.kept, transactions.total),
        "coordinators' parts of transactions": Drawn(parts.kept, parts.total),
    }


def _operation(row: Mapping[str, Any], **more: object) -> Slice:
    known_ns = row["commit_ns"] or row["call_ns"]
    end_ns = known_ns + SHORTEST_NS if row["return_ns"] is None else row["return_ns"]
    kind = "transaction" if row["f"] == "txn" else row["f"]
    args = {
        "operation": row["name"],
        "transactional id": row["transactional_id"],
        "error": row["error"],
        "fenced": row["fenced"] or None,
        "end": None if row["return_ns"] is not None else "not known: the operation has no completion",
    }
    return Slice(
        kind if row["f"] == "poll" else f"{kind}: {row['outcome']}",
        microseconds(row["call_ns"]),
        microseconds(end_ns),
        args | more,
        None if row["f"] == "poll" else _OUTCOME_COLORS.get(row["outcome"]),
        [("op", row["op"])],
    )


def _with_parts(rows: Sequence[Mapping[str, Any]]) -> list[Slice]:
    """Return the slices of a worker. Polls and the commit are inside their transaction, if they fit."""
    roots = {row["op"]: _operation(row) for row in rows if row["txn"] is None}
    parts: dict[int, list[Slice]] = defaultdict(list)
    for row in rows:
        if row["txn"] is not None:
            parts[row["txn"]].append(_operation(row))
        elif row["f"] == "txn" and row["commit_ns"] is not None:
            root = roots[row["op"]]
            parts[row["op"]].append(
                Slice("commit", microseconds(row["commit_ns"]), root.end_us, {}, root.color)
            )
    others = []
    for op, own in parts.items():
        for part in sorted(own, key=lambda each: each.begin_us):
            if (root_ := roots.get(op)) is None or not root_.nest(part):
                others.append(part)
    return [*roots.values(), *others]


def _one_after_the_other(slices: Sequence[Slice]) -> list[Slice]:
    """Return slices of which each ends before the next begins, with their durations as arguments."""
    ordered = sorted(slices, key=lambda each: each.begin_us)
    for each, following in pairwise(ordered):
        each.args = {**each.args, "took_ms": (each.end_us - each.begin_us) / 1_000}
        each.end_us = max(each.begin_us + 1, min(each.end_us, following.begin_us))
    return ordered


def _transaction(row: Mapping[str, Any], end_ns: float) -> Slice:
    known_ns = row["end_ns"]
    if known_ns is None:
        last_ns = row["decided_ns"] or row["begin_ns"]
        known_ns = end_ns if row["ending"] == Ending.OPEN else last_ns + SHORTEST_NS
    args = {name: row[name] for name in ("stage", "process", "error")}
    return Slice(
        row["ending"],
        microseconds(row["begin_ns"]),
        microseconds(known_ns),
        {"operation": row["name"], **args, "fenced": row["fenced"] or None},
        _ENDING_COLORS.get(row["ending"]),
    )


def _completion(row: Mapping[str, Any], end_ns: float) -> Slice:
    completed_ns = end_ns if row["completed_ns"] is None else row["completed_ns"]
    name = f"coordinator: {'commit' if row['state'] == 'PrepareCommit' else 'abort'}"
    args = {"from": row["state"], "to": "not complete" if row["completed_ns"] is None else "Complete"}
    return Slice(name, microseconds(row["prepared_ns"]), microseconds(completed_ns), args)


def _nest(roots: Sequence[Slice], parts: Sequence[Slice]) -> list[Slice]:
    """Put each coordinator's part into the last transaction that began before it. Return the parts that do not fit."""
    begins = np.array([root.begin_us for root in roots])
    before = [part.begin_us + TICK_NS // 1_000 for part in parts]
    last = np.searchsorted(begins, before, side="right") - 1
    return [part for part, at in zip(parts, last, strict=True) if at < 0 or not roots[at].nest(part)]


def draw_partitions(
    story: Story, tracks: Tracks, batches: PartitionSample, wanted: Collection[Position]
) -> Drawn:
    """Draw a thread for each partition: its batches and markers, as the leader stored them.

    Brokers and clients write times in whole milliseconds. So a batch is a slice of a millisecond. If a partition has
    several batches in one millisecond, they share it in the order of their offsets.
    """
    by_tp: dict[int, list[int]] = {}
    for tp, offset in sorted(wanted):
        by_tp.setdefault(tp, []).append(offset)
    for tp, rows in batches.rows(wanted):
        tracks.draw(PARTITIONS, story.partition_name(tp), _batches(tp, rows, by_tp.get(tp, ())))
    return batches.drawn


def draw_changed_requests(story: Story, tracks: Tracks) -> Drawn:
    """Draw a thread for each client: the requests that a rule changed, from sent to answered, with a mark where the
    request was delivered to the broker.
    """
    threads: dict[str, list[Slice]] = {}
    changed, more = changed_requests_of_run(story)
    for each in changed:
        times_us = {point.kind: microseconds(point.at_ns or 0) for point in each.points}
        marks = [Mark("delivered", times_us[Kind.DELIVERED])] if Kind.DELIVERED in times_us else []
        steps = {
            f"{n}. {'sent' if point.kind is Kind.REQUEST else point.kind}": point.words
            for n, point in enumerate(each.points, 1)
        }
        args = {"request": each.words, **each.facts, **steps}
        # A mark at the end would be outside the slice.
        end_us = max([*times_us.values(), *(mark.at_us + 1 for mark in marks)])
        threads.setdefault(each.actor, []).append(
            Slice(each.subject, microseconds(each.from_ns), end_us, args, marks=marks)
        )
    for thread, slices in sorted(threads.items()):
        tracks.draw(REQUESTS, thread, slices)
    return Drawn(len(changed), len(changed) + more)


def _batches(tp: int, rows: pa.Table, wanted: Sequence[int]) -> Iterator[Slice]:
    """Yield the slices of a partition. Its rows are in the order of their times and offsets."""
    _, at, sizes = np.unique(rows["time_ns"].to_numpy(), return_inverse=True, return_counts=True)
    firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    wanted_from = np.searchsorted(wanted, rows["base_offset"].to_numpy())
    wanted_until = np.searchsorted(wanted, rows["last_offset"].to_numpy(), side="right")
    for n, row in enumerate(rows.to_pylist()):
        size, rank = int(sizes[at[n]]), n - int(firsts[at[n]])
        ms_us = microseconds(row["time_ns"])
        begin_us, end_us = ms_us + rank * _MS_US // size, ms_us + (rank + 1) * _MS_US // size
        offsets = [row["base_offset"]] if row["control"] else wanted[wanted_from[n] : wanted_until[n]]
        name, color = _name(row)
        args = {
            "offset": row["base_offset"],
            "last offset": row["last_offset"],
            "records": None if row["control"] else row["count"],
            "producer id": row["producer_id"] if row["producer_id"] >= 0 else None,
            "marker at": row["marker_offset"],
            "time": "adjusted" if row["adjusted"] else None,
        }
        yield Slice(name, begin_us, end_us, args, color, [("record", tp, offset) for offset in offsets])


def _name(row: Mapping[str, Any]) -> tuple[str, str | None]:
    if row["control"]:
        return f"{row['marker']} marker", "grey"
    if not row["transactional"]:
        return "records outside transactions", None
    return _FATES.get(row["marker"], ("records of an open transaction", "terrible"))


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
