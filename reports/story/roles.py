"""Who was what, and when: processes that were up, members that owned partitions, leaders, coordinators, producers.

The broker logs hold the epochs of leaders and coordinators, and not which broker they were. A change is seen at the
first batch, or marker, that has the new epoch; in a partition without traffic that is later than the change.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from weakref import WeakKeyDictionary

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from harness.common.wording import join_words, plural, printable
from harness.model.vocabulary import WARM_UP, worker_of
from harness.record.table_reader import Row, RunTables
from harness.results.verdict import FaultReport
from reports.story.logs import program_lines
from reports.story.model import Kind, Point, Span
from reports.story.run import Story

_SUCCESSOR = re.compile(r"(?P<journal>\S+\.\d+) took its place")
_LAST_BYTES = 1 << 14
_LIVES: WeakKeyDictionary[Story, tuple[Span, ...]] = WeakKeyDictionary()
"""The lives of the processes of a story: many questions need them, and they are read from many files."""
_FIRST_INCARNATION = ".0"


def is_process(journal: str, name: str) -> bool:
    """Return whether a name is that of a process (`bill-3.0`), or of its worker (`bill-3`)."""
    return journal != "" and name in (journal, worker_of(journal))


def successor_of(story: Story, journal: str) -> str:
    """Return the process that replaced a process: `bill-3.1` for `bill-3.0`. Empty: there is none."""
    worker, _, number = journal.rpartition(".")
    following = f"{worker}.{int(number) + 1}" if number.isdigit() else ""
    return following if any(life.actor == following for life in lives(story)) else ""


def struck_process(fault: FaultReport) -> str:
    """Return the process that a fault acted on. Empty: a broker, perhaps when a worker was at a step."""
    return "" if fault.struck.startswith("broker") else fault.details.get("worker", "")


# Processes


def lives(story: Story) -> tuple[Span, ...]:
    """Return a span for each process of the pipeline from its start to its end, by name.

    Its points are what happened to it: it was killed, paused or resumed, or it ended. The processes of a workload say
    in their journals when they began and ended. Those of other programs do not, so their times are inferred from the
    phases of the run, from faults, and from changes of the members.
    """
    if story not in _LIVES:
        found = {**_lives_by_journals(story), **_lives_by_metadata(story)}
        _LIVES[story] = tuple(_with_faults(story, found[journal]) for journal in sorted(found))
    return _LIVES[story]


def _lives_by_journals(story: Story) -> dict[str, Span]:
    t = story.tables
    found = {}
    for row in t.rows("journals", role=["worker"]):
        journal = row["journal"]
        source = f"journals/{journal}.jsonl"
        times_ns = _journal_times(t, journal) or _operation_times(t, journal)
        if times_ns is not None:
            end = Point(times_ns[1], journal, "ended", source, Kind.DEATH, inferred=not row["ended"])
            found[journal] = Span(
                times_ns[0],
                times_ns[1],
                journal,
                "up",
                source,
                Kind.LIFE,
                points=(end,),
                inferred=not row["ended"],
            )
    return found


def _journal_times(t: RunTables, journal: str) -> tuple[int, int] | None:
    """Return the times of the first and the last line of a journal. None: it cannot be read."""
    try:
        with (t.folder / "journals" / f"{journal}.jsonl").open("rb") as file:
            first = orjson.loads(file.readline())["time"]
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LAST_BYTES))
            lines = [
                line
                for line in file.read().split(b"\n")[:-1]
                if line.startswith(b"{") and line.endswith(b"}")
            ]
        last = max((orjson.loads(line)["time"] for line in lines[-1:]), default=first)
        return int(first), int(last)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _operation_times(t: RunTables, journal: str) -> tuple[int, int] | None:
    rows = t.rows("ops", journal=[journal])
    times_ns = [row[name] for row in rows for name in ("call_ns", "return_ns") if row[name] is not None]
    return (min(times_ns), max(times_ns)) if times_ns else None


def _lives_by_metadata(story: Story) -> dict[str, Span]:
    """Return the lives of the instances of stages without journals: all times of starts and ends are inferred."""
    workload = story.tables.settings.get("workload")
    stages = workload.get("stages") if isinstance(workload, Mapping) else None
    own_stages = [
        stage
        for stage in (stages if isinstance(stages, list) else ())
        if isinstance(stage, Mapping) and stage.get("journaled") is False
    ]
    workers = [str(worker) for stage in own_stages for worker in stage.get("workers") or ()]
    prefixes = {str(stage.get("name")) for stage in own_stages}  # an instance `bill-4` may have joined
    phases = {phase.name: phase for phase in story.phases}
    if not workers or "workers" not in phases:
        return {}
    begun_ns = round(phases["workers"].start_s * 1e9)
    drained = phases.get("drain") or story.phases[-1]
    ended_ns = round(drained.end_s * 1e9)
    starts = {f"{worker}{_FIRST_INCARNATION}": (begun_ns, "phase workers") for worker in workers}
    starts |= {name: start for name, start in _later_starts(story) if _prefix_of(name) in prefixes}
    named = {path.stem for path in (story.tables.folder / "workers").glob("*.log")}
    for name in sorted(named | set(story.tables.metadata.program_clients)):
        if _prefix_of(name) in prefixes and name not in starts:
            starts[name] = (_after_its_predecessor(story, name, begun_ns), "workers")
    lives_by_name = {}
    for name, (from_ns, source) in starts.items():
        worker, _, number = name.rpartition(".")
        replaced = number.isdigit() and f"{worker}.{int(number) + 1}" in starts
        # A process that was replaced may have ended at any time after that.
        logged_ns = _logged_ns(story, name) if replaced else (from_ns, ended_ns)
        to_ns = None if logged_ns is None else max(logged_ns[1], from_ns)
        lives_by_name[name] = Span(from_ns, to_ns, name, "up", source, Kind.LIFE, inferred=True)
    return lives_by_name


def _prefix_of(journal: str) -> str:
    """Return the stage of an instance: `bill` for `bill-4.0`."""
    return worker_of(journal).rpartition("-")[0]


def _logged_ns(story: Story, journal: str) -> tuple[int, int] | None:
    """Return the times of the first and the last line of a program's log. None: no line has a time."""
    lines = program_lines(story.tables, [f"{journal}.log"], (0.0, story.end_s))
    return (round(lines[0][0] * 1e9), round(lines[-1][0] * 1e9)) if lines else None


def _later_starts(story: Story) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield the processes that replaced others or joined, with their start and what shows it."""
    for fault in story.faults:
        successor = _SUCCESSOR.search(fault.evidence)
        if successor is not None:
            at_s = fault.end_s if _stops(fault) and fault.end_s is not None else fault.start_s
            yield successor["journal"], (round(at_s * 1e9), "metadata.json")
        if _adds(fault) and fault.acted and struck_process(fault):
            yield struck_process(fault), (round(fault.start_s * 1e9), "metadata.json")
    for change in story.tables.metadata.churn:
        if change.joined is not None:
            yield change.joined, (round(change.start_s * 1e9), "metadata.json")


def _after_its_predecessor(story: Story, name: str, begun_ns: int) -> int:
    """Return when a process was started that no evidence of a fault names.

    A fault that stopped the process before it also started it. If none did, its log says when it was up, or the log of
    the process before it says when that was up for the last time.
    """
    worker, _, number = name.rpartition(".")
    before = f"{worker}.{int(number) - 1}" if number.isdigit() else ""
    stops = [
        round(fault.end_s * 1e9)
        for fault in story.faults
        if fault.acted
        and _stops(fault)
        and fault.end_s is not None
        and struck_process(fault) in (before, worker)
    ]
    if stops:
        return max(stops)
    if own := _logged_ns(story, name):
        return own[0]
    earlier = _logged_ns(story, before)
    return earlier[1] if earlier else begun_ns


def _is(fault: FaultReport, verb: str) -> bool:
    return fault.fault.startswith(verb)


def _adds(fault: FaultReport) -> bool:
    """Return whether a fault started a further instance, and stopped it at its end."""
    return _is(fault, "scale") and fault.target.endswith("in addition")


def _stops(fault: FaultReport) -> bool:
    """Return whether a fault ended a process, and started the next one at its end."""
    return fault.fault.startswith(("kill", "restart", "scale")) and not _adds(fault)


def _with_faults(story: Story, life: Span) -> Span:
    """Return a life with what faults and changes of the members did to it."""
    points = list(life.points)
    stopped_ns = None
    for fault in story.faults:
        if not fault.acted or struck_process(fault) != life.actor:
            continue
        start_ns = round(fault.start_s * 1e9)
        healed_ns = None if fault.end_s is None else round(fault.end_s * 1e9)
        if _stops(fault):
            stopped_ns = start_ns
            words = "killed" if _is(fault, "kill") else "stopped"
            points = [Point(start_ns, life.actor, words, "metadata.json", Kind.DEATH)]
        elif _adds(fault) and healed_ns is not None:
            life = replace(life, to_ns=max(healed_ns, life.from_ns))
        elif _is(fault, "pause"):
            points.append(Point(start_ns, life.actor, "paused", "metadata.json", Kind.FAULT))
            if healed_ns is not None:
                points.append(Point(healed_ns, life.actor, "resumed", "metadata.json", Kind.HEAL))
    left = [change for change in story.tables.metadata.churn if change.left == life.actor]
    if stopped_ns is not None:
        by_journal = life.source.startswith("journals/")
        life = replace(life, to_ns=max(stopped_ns, life.from_ns), inferred=life.inferred and not by_journal)
    elif left and life.inferred:
        to_ns = round(left[-1].end_s * 1e9)
        points.append(Point(to_ns, life.actor, "left", "metadata.json", Kind.DEATH))
        life = replace(life, to_ns=to_ns)
    points.sort(key=lambda point: point.at_ns or 0)
    return replace(life, points=tuple(points))


@dataclass(frozen=True)
class ProducerUse:
    """A process, and a producer id that it used. Epochs are those of the transaction log."""

    process: str  # empty: not known
    transactional_id: str
    producer_id: int
    first_epoch: int
    last_epoch: int


def producers(story: Story) -> list[ProducerUse]:
    """Return which process used which transactional id and producer id, ordered by process and id.

    An id that several processes used after each other has a row for each of them. The epochs are those of its states
    while the process used it, as far as journals say when that was.
    """
    if not story.tables.exists("transactions"):
        return []
    columns = ("transactional_id", "producer_id", "epoch", "update_ms")
    states = story.tables.table("transactions", columns).drop_null()
    found: dict[tuple[str, str, int], tuple[int, int]] = {}
    own = states.group_by(["transactional_id", "producer_id", "epoch"]).aggregate([("update_ms", "list")])
    for row in own.to_pylist():
        own_id, producer_id, epoch = row["transactional_id"], row["producer_id"], row["epoch"]
        if own_id.startswith(WARM_UP):
            continue
        for process in _processes_at(story, own_id, sorted(row["update_ms_list"])):
            low, high = found.get((process, own_id, producer_id), (epoch, epoch))
            found[process, own_id, producer_id] = min(low, epoch), max(high, epoch)
    return [ProducerUse(*key, *epochs) for key, epochs in sorted(found.items())]


def _processes_at(story: Story, transactional_id: str, times_ms: Sequence[int]) -> set[str]:
    """Return the processes that used an id at one of these times of brokers."""
    times_ns = [story.tables.at_ns(time_ms) for time_ms in times_ms]
    if story.by_logs:
        used = {process_at(story, transactional_id, time_ns) for time_ns in (times_ns[0], times_ns[-1])}
        # If one of the times says which life of an instance it was, the other one adds nothing.
        return used - {worker_of(process) for process in used}
    operations = story.operations_of(transactional_id)
    if not operations or None in times_ns:
        return {process_at(story, transactional_id, times_ns[0])}
    calls_ns = [row["call_ns"] for row in operations]
    last = np.maximum(np.searchsorted(calls_ns, np.array(times_ns), side="right") - 1, 0)
    return {str(operations[index]["journal"]) for index in np.unique(last)}


def process_at(story: Story, transactional_id: str, at_ns: int | None) -> str:
    """Return the process that used a transactional id at a time.

    If it is not known which of several lives of an instance it was, this is the instance. Empty: it is not known.
    """
    if story.by_logs:
        users = story.processes_by_id.get(transactional_id, ())
        workers = {worker_of(user) for user in users}
        own = [life for life in lives(story) if worker_of(life.actor) in workers]
        up = [
            life.actor
            for life in own
            if at_ns is None or life.from_ns <= at_ns <= (at_ns if life.to_ns is None else life.to_ns)
        ]
        if len(up) == 1:
            return up[0]
        if len(users) == 1 and len(own) < 2:
            return users[0]
        return workers.pop() if len(workers) == 1 else ""
    operations = story.operations_of(transactional_id)
    earlier = [row for row in operations if at_ns is None or row["call_ns"] <= at_ns]
    return next((str(row["journal"]) for row in (*reversed(earlier), *operations)), "")


# Members of groups


def ownership(story: Story) -> list[Span]:
    """Return a span for each time in which a process owned the same partitions, until it lost them or until its last
    operation. Their `subject` is the group. Raises `UnreadableInput`.
    """
    t = story.tables
    if not t.exists("assignments"):
        return []
    table = t.table("assignments", ("journal", "group", "time_ns", "gained", "tp"))
    table = table.sort_by([("journal", "ascending"), ("group", "ascending"), ("time_ns", "ascending")])
    last_ns = _last_operations(t)
    spans = []
    for (journal, group), rows in groupby(table.to_pylist(), key=itemgetter("journal", "group")):
        for from_ns, to_ns, tps in _owned(rows, last_ns.get(journal)):
            words = f"{plural(len(tps), 'partition')}: {join_words(sorted(map(t.name, tps)), 8)}"
            spans.append(Span(from_ns, to_ns, journal, words, "assignments", Kind.ASSIGNMENT, group or ""))
    return spans


def _last_operations(t: RunTables) -> dict[str, int]:
    """Return by journal when its last operation began or ended."""
    if not t.exists("ops"):
        return {}
    ops = t.table("ops", ("journal", "call_ns", "return_ns"))
    last = pa.table({"journal": ops["journal"], "at": pc.max_element_wise(ops["call_ns"], ops["return_ns"])})
    rows = last.group_by("journal").aggregate([("at", "max")]).to_pylist()
    return {row["journal"]: row["at_max"] for row in rows if row["at_max"] is not None}


def _owned(rows: Iterable[Row], last_ns: int | None) -> Iterator[tuple[int, int | None, frozenset[int]]]:
    """Yield (from, to, partitions) for each time in which a process owned the same partitions."""
    owned: frozenset[int] = frozenset()
    since_ns = 0
    for time_ns, changes in groupby(rows, key=itemgetter("time_ns")):
        if owned and time_ns > since_ns:
            yield since_ns, time_ns, owned
        for change in changes:
            owned = owned | {change["tp"]} if change["gained"] else owned - {change["tp"]}
        since_ns = time_ns
    if owned:
        yield since_ns, None if last_ns is None else max(last_ns, since_ns), owned


# Leaders and coordinators


def leader_epochs(story: Story) -> dict[str, list[Span]]:
    """Return a span for each epoch of a leader or coordinator: `leaders`, `groups` and `transactions`.

    A span lasts until the next epoch of the same partition. Its `subject` is the change that began it, such as
    `epoch 3 to 4`; empty: it is the first one. Raises `UnreadableInput`.
    """
    t = story.tables
    if not t.exists("batches") or t.wall_ms_at_zero is None:
        return {}
    batches = t.table("batches", ("tp", "leader_epoch", "max_timestamp_ms"), leader=[True])
    epochs = _epochs(t, batches.rename_columns(["tp", "epoch", "time_ms"]))
    names = {tp: t.name(tp) for tp, (topic, _) in t.topic_partitions.items() if not topic.startswith("__")}
    groups = {tp: f"{t.name(tp)}, coordinator of {own}" for tp, own in _groups(t).items()}
    return {
        "leaders": _epoch_spans(epochs, names, Kind.LEADER),
        "groups": _epoch_spans(epochs, groups, Kind.COORDINATOR),
        "transactions": _transaction_coordinators(t),
    }


def _epochs(t: RunTables, rows: pa.Table) -> pa.Table:
    """Return a row for each epoch of an owner, in order: `tp`, `epoch`, and `at_ns` of its first batch.

    `rows` has `tp`, `epoch` and `time_ms` of batches.
    """
    rows = rows.filter(rows["epoch"].is_valid())
    by_epoch = rows.group_by(["tp", "epoch"]).aggregate([("time_ms", "min")])
    by_epoch = by_epoch.sort_by([("tp", "ascending"), ("epoch", "ascending")]).combine_chunks()
    time_ms = by_epoch["time_ms_min"].to_numpy().astype(np.int64)
    at_ns = ((time_ms - (t.wall_ms_at_zero or 0.0)) * 1e6).astype(np.int64)
    return pa.table({"tp": by_epoch["tp"], "epoch": by_epoch["epoch"], "at_ns": at_ns})


def _epoch_spans(epochs: pa.Table, names: Mapping[int, str], kind: Kind) -> list[Span]:
    """Return the spans of the epochs of these partitions."""
    rows = epochs.filter(
        pc.is_in(pc.cast(epochs["tp"], pa.int64()), pa.array(list(names), pa.int64()))
    ).to_pylist()
    spans = []
    for n, row in enumerate(rows):
        before = rows[n - 1] if n and rows[n - 1]["tp"] == row["tp"] else None
        after = rows[n + 1] if n + 1 < len(rows) and rows[n + 1]["tp"] == row["tp"] else None
        change = "" if before is None else f"epoch {before['epoch']} to {row['epoch']}"
        to_ns = None if after is None else after["at_ns"]
        words = f"leader epoch {row['epoch']}"
        spans.append(Span(row["at_ns"], to_ns, names[row["tp"]], words, "batches", kind, change))
    return spans


def _groups(t: RunTables) -> Mapping[int, str]:
    """Return by partition of `__consumer_offsets` the groups whose offsets it holds."""
    if not t.exists("offsets"):
        return {}
    pairs = t.table("offsets", ("log_tp", "group")).group_by(["log_tp", "group"]).aggregate([]).to_pylist()
    groups: dict[int, list[str]] = {}
    for pair in pairs:
        groups.setdefault(pair["log_tp"], []).append(printable(pair["group"], 60))
    return {tp: ", ".join(sorted(names)) for tp, names in groups.items()}


def _transaction_coordinators(t: RunTables) -> list[Span]:
    """Return the spans of `coordinator_epoch` in the markers, by partition of the transaction log."""
    if not t.exists("transactions"):
        return []
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
    return _epoch_spans(epochs, names, Kind.COORDINATOR)
