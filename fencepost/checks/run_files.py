"""Gap rules about the files of a run: run.toml and metadata.json do not agree with the tables, or say what cannot be.

For example, a stage that the run did not have, a fault before the run, or a fault of a worker that the run did not
have. Such files prove nothing, so the run is `unknown`. Each sentence names the fact.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import pyarrow.compute as pc

from checkers.gaps.rule import GapRule, Row, apply_rules, once
from harness.model.vocabulary import worker_of
from harness.record.naming import PartitionIds
from harness.record.parquet import iterate_parquet, read_parquet
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import FaultReport
from harness.settings.run_file import StoredPlan

SLACK_S = 1.0
"""A time is rounded, and the end of a phase is measured after the end of what it contains."""
MOST_JOURNAL_BYTES = 64 << 20
"""A journal of the faults has a few hundred bytes for each fault."""
OF_PROCESS = re.compile(r"\bprocess (\d+) (?:stopped|continued|ended) by SIG")
WORKERS, FAULTS = "workers", "faults"
"""The phases in which a fault may begin."""


@dataclass(frozen=True)
class StoredFiles:
    """The files of a run, and the small tables that they are compared with."""

    folder: Path
    plan: StoredPlan
    run_metadata: RunMetadata

    def table(self, name: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
        """Return the rows of a table of the history."""
        rows: list[dict[str, Any]] = read_parquet(
            self.folder / "history" / f"{name}.parquet", columns
        ).to_pylist()
        return rows

    @cached_property
    def stages(self) -> list[dict[str, Any]]:
        """The rows of the table stages, without the run."""
        rows = self.table("stages")
        for row in rows:
            del row["run"]
        return rows

    @cached_property
    def partition_ids(self) -> Mapping[tuple[str, int], int]:
        """By topic and partition, the number of the partition in the tables."""
        rows = self.table("partitions", ["tp", "topic", "partition"])
        return {(row["topic"], row["partition"]): row["tp"] for row in rows}

    @cached_property
    def pids(self) -> Mapping[str, int | None]:
        """The process ids, by journal."""
        return {row["journal"]: row["pid"] for row in self.table("journals", ["journal", "pid"])}

    @cached_property
    def brokers(self) -> set[int]:
        """The brokers of the run; empty if the logs of all of them were not read."""
        path = self.folder / "log" / "replicas.parquet"
        if not self.plan.promises.replicas or not path.is_file():
            return set()
        return {
            *range(1, self.plan.options.brokers + 1),
            *read_parquet(path, ["broker"])["broker"].to_pylist(),
        }


def _differing_columns(files: StoredFiles) -> Iterator[Row]:
    """Yield each value of a stage that is not the planned one."""
    stages = {(row["stage"], row["in_topic"]): row for row in files.stages}
    planned = {(stage.name, topic): stage for stage in files.plan.pipeline.stages for topic in stage.reads}
    for name, topic in sorted(stages.keys() & planned.keys()):
        for column, value in stages[name, topic].items():
            if column not in ("stage", "in_topic"):
                wanted = getattr(planned[name, topic], column)
                yield {"stage": name, "column": column, "value": value, "planned": wanted}


def _listed(names: Iterable[str]) -> str:
    """Return the first ten names in order, separated by commas; "none" if there are no names."""
    return ", ".join(sorted(names)[:10]) or "none"


def _any_names(find: Callable[[StoredFiles], Iterable[str]]) -> Callable[[StoredFiles], Iterable[Row]]:
    """Return the rows of a rule about all names together: one row with `names`, if there are any."""

    def rows(files: StoredFiles) -> Iterable[Row]:
        names = set(find(files))
        return ({"names": _listed(names)},) if names else ()

    return rows


def _unplanned_stages(files: StoredFiles) -> Iterator[Row]:
    stored = {(row["stage"], row["in_topic"]) for row in files.stages}
    planned = {(stage.name, topic) for stage in files.plan.pipeline.stages for topic in stage.reads}
    if stored != planned:
        names, others = (
            _listed(f"{stage} of {topic}" for stage, topic in stages) for stages in (stored, planned)
        )
        yield {"names": names, "planned": others}


def _moved_partitions(files: StoredFiles) -> Iterator[str]:
    numbers = {
        (topic, number): tp for tp, topic, number in PartitionIds(files.plan.pipeline.partition_counts)
    }
    for (topic, number), tp in files.partition_ids.items():
        if numbers.get((topic, number), tp) != tp:
            yield f"{topic}/{number}"


def _hidden_topics(files: StoredFiles) -> set[str]:
    """Return the topics of the pipeline that the table partitions calls internal."""
    internal = {row["topic"] for row in files.table("partitions", ["topic", "internal"]) if row["internal"]}
    return internal & {topic.name for topic in files.plan.pipeline.topics}


def _backwards(files: StoredFiles) -> int:
    """Return how many operations returned before they were called."""
    return sum(
        pc.sum(pc.less(times["return_ns"], times["call_ns"])).as_py() or 0
        for times in iterate_parquet(files.folder / "history" / "ops.parquet", ["call_ns", "return_ns"])
    )


def _missing_partitions(files: StoredFiles) -> Iterator[str]:
    for topic, number in set(files.plan.pipeline.topic_partitions) - files.partition_ids.keys():
        yield f"{topic}/{number}"


def _missing_replicas(files: StoredFiles) -> Iterator[Row]:
    """Yield for each topic the first partition with fewer logs than the topic has replicas."""
    plan = files.plan
    if not (plan.promises.replicas and (files.folder / "log").is_dir()):
        return
    rows = read_parquet(files.folder / "log" / "replicas.parquet", ["tp"])
    logs = Counter(rows["tp"].to_pylist())
    ids = files.partition_ids
    wanted = {topic.name: topic.replication for topic in plan.pipeline.topics}
    for name in plan.promises.internal_logs:
        wanted[name] = max((logs[tp] for (topic, _), tp in ids.items() if topic == name), default=0)
    for name, replicas in wanted.items():
        for (topic, number), tp in sorted(ids.items()):
            if topic == name and logs[tp] < replicas:
                yield {"partition": f"{topic}/{number}", "replicas": replicas, "logs": logs[tp]}
                break


DIFFERENCES: tuple[GapRule[StoredFiles], ...] = (
    GapRule(
        "stage-twice",
        once(lambda f: len(f.stages) != len({(row["stage"], row["in_topic"]) for row in f.stages})),
        "the table stages has a stage twice",
    ),
    GapRule(
        "stages-not-planned",
        _unplanned_stages,
        "the table stages has {names}, and the run had {planned}",
    ),
    GapRule(
        "stage-not-planned-so",
        _differing_columns,
        "the table stages has {value} as {column} of {stage}, and the run had {planned}",
        where=lambda row: row["value"] != row["planned"],
    ),
    GapRule(
        "journal-not-in-table",
        # The journal of the faults is in the same folder, and is no part of the tables.
        _any_names(
            lambda f: (
                {path.stem for path in (f.folder / "journals").glob("*.jsonl")} - f.pids.keys() - {"nemesis"}
            )
        ),
        "the table journals lacks {names}",
    ),
    GapRule(
        "reader-left-no-journal",
        _any_names(lambda f: {reader.journal for reader in f.plan.promises.readers} - f.pids.keys()),
        "the run promised readers that left no journal: {names}",
    ),
    GapRule(
        "partitions-renumbered",
        _any_names(_moved_partitions),
        "the table partitions has other numbers than the run's plan: {names}",
    ),
    GapRule(
        "topics-called-internal",
        _any_names(_hidden_topics),
        "the table partitions calls topics of the pipeline internal: {names}",
    ),
    GapRule(
        "operations-backwards",
        once(_backwards),
        "the table ops has {count} operations that returned before they were called",
    ),
    GapRule(
        "partitions-not-stored",
        _any_names(_missing_partitions),
        "the table partitions lacks {names}",
    ),
    GapRule(
        "replicas-not-stored",
        _missing_replicas,
        "the run had the logs of {replicas} replicas of {partition}, and the table replicas has {logs}",
    ),
)
"""The tables differ from run.toml."""


def _numbers(files: StoredFiles) -> Iterator[Row]:
    """Yield the numbers that cannot be negative."""
    plan, run_metadata = files.plan, files.run_metadata
    numbers = {
        "clock_drift_ms": run_metadata.clock_drift_ms,
        "rested_ms": run_metadata.rested_ms,
        "history_crc": run_metadata.history_crc,
        "protocol_crc": run_metadata.protocol_crc,
        **{
            name: plan.run.get(name)
            for name in ("wall_ms_at_zero", "monotonic_ns_at_zero", "session_timeout_ms")
        },
        **{f"the number of rows of {name}": count for name, count in run_metadata.rows.items()},
        **{
            f"a version of {name}": version
            for name, versions in run_metadata.requests.items()
            for version in versions
        },
    }
    for name, value in numbers.items():
        if value is not None:
            yield {"name": name, "value": value, "shown": f"{value:g}"}


def _rested_before_the_run(files: StoredFiles) -> bool:
    zero_ms, rested_ms = files.plan.run.get("wall_ms_at_zero"), files.run_metadata.rested_ms
    # Somebody may have set the wall clock back during the run. A negative drift is reported by another rule.
    moved_ms = max(files.run_metadata.clock_drift_ms or 0.0, 0.0)
    return zero_ms is not None and rested_ms is not None and rested_ms + moved_ms < zero_ms


def _seeds(files: StoredFiles) -> Iterator[Row]:
    seeds = {seed for seed in (files.plan.options.seed, files.plan.run.get("seed")) if seed is not None}
    if len(seeds) > 1:
        yield {"seeds": " and ".join(map(str, sorted(seeds)))}


def _phases(files: StoredFiles) -> Iterable[Row]:
    for phase in files.run_metadata.phases:
        yield {"phase": phase.name, "length_s": phase.end_s - phase.start_s}


def _changes(files: StoredFiles) -> Iterator[Row]:
    """Yield the times of each fault and each change of workers, and those between which it can be.

    Columns: name, `start`, `end` and `first`, `last`, `run_end` in words; `is_early`, `is_late`, `is_long`.
    """
    run_metadata = files.run_metadata
    phases = {phase.name: phase for phase in run_metadata.phases}
    begin = phases.get(WORKERS)
    last = phases.get(FAULTS) or begin
    run_end_s = max((phase.end_s for phase in run_metadata.phases), default=None)
    changes = [
        *((fault.fault, fault.start_s, fault.end_s) for fault in run_metadata.faults),
        *(
            (f"the change of stage {change.stage}", change.start_s, change.end_s)
            for change in run_metadata.churn
        ),
    ]
    for name, start_s, end_s in changes:
        yield {
            "name": name,
            "start": f"{start_s:g} s",
            "end": "" if end_s is None else f"{end_s:g} s",
            "first": f"{begin.start_s:g} s" if begin else "",
            "last": f"{last.end_s:g} s" if last else "",
            "run_end": "" if run_end_s is None else f"{run_end_s:g} s",
            "is_early": begin is not None and start_s < begin.start_s - SLACK_S,
            "is_late": last is not None and start_s > last.end_s + SLACK_S,
            "is_long": run_end_s is not None and end_s is not None and end_s > run_end_s + SLACK_S,
        }


def _short_faults_phase(files: StoredFiles) -> Iterator[Row]:
    """Yield the phase of the faults if it ended long before the time limit, and nothing says why."""
    limit_s = files.plan.options.time_limit_s
    if files.run_metadata.interrupted or files.run_metadata.evidence_problems:
        return
    for row in _phases(files):
        if row["phase"] == FAULTS and 0 <= row["length_s"] < limit_s - SLACK_S:
            yield {**row, "length": f"{row['length_s']:g} s", "limit": f"{limit_s:g} s"}


def _targets(files: StoredFiles) -> Iterator[Row]:
    """Yield each fault with what it acted on.

    Columns: fault; `worker`, `process`, `partition`, `broker`: what the fault acted on and the run did not have, or
    empty; `own_process`: the process of the worker.
    """
    partitions = {f"{topic}/{number}" for topic, number in files.partition_ids}
    partitions |= {f"{topic}/{number}" for topic, number in files.plan.pipeline.topic_partitions}
    for fault in files.run_metadata.faults:
        details = fault.details
        partition = details.get("partition", "__")
        numbers = re.findall(r"\d+", f"{details.get('broker', '')} {details.get('brokers', '')}")
        others = sorted(set(map(int, numbers)) - files.brokers) if files.brokers else []
        journal, own = details.get("worker"), _own_process(files, fault)
        in_evidence = set(map(int, OF_PROCESS.findall(fault.evidence)))
        is_other = own is not None and bool(in_evidence) and own not in in_evidence
        # The partitions of internal topics are not known if their logs were not read.
        is_known = partition.startswith("__") or partition in partitions
        yield {
            "fault": fault.fault,
            "worker": journal,
            "is_worker_known": journal is None or _had_worker(files, journal),
            "process": " and ".join(map(str, sorted(in_evidence))) if is_other else "",
            "own_process": own,
            "partition": "" if is_known else partition,
            "broker": others[0] if others else "",
        }


def _had_worker(files: StoredFiles, journal: str) -> bool:
    """Return whether the run had a worker with this journal. Programs of a custom pipeline leave no journals."""
    churn = files.run_metadata.churn
    joined = {name for change in churn for name in (change.joined, change.left) if name}
    known = {worker for stage in files.plan.pipeline.stages for worker in stage.workers}
    is_program = not files.plan.pipeline.journaled and bool({journal, worker_of(journal)} & {*known, *joined})
    return journal in files.pids or is_program


def _own_process(files: StoredFiles, fault: FaultReport) -> int | None:
    """Return the process id of the worker on which a fault acted; None if it acted on something else."""
    journal = fault.details.get("worker")
    # A fault on a broker may wait for a step of a worker: its process is the broker then.
    if journal is None or not fault.target.startswith(f"worker {journal}"):
        return None
    return files.pids.get(journal)


def _injections(files: StoredFiles) -> Iterator[Row]:
    """Yield each fault, with whether the journal of the faults has it, and at the same time.

    A journal that is missing or incomplete proves nothing.
    """
    events = _events(files.folder / "journals" / "nemesis.jsonl")
    if not events or events[-1].get("type") != "end":
        return
    begun = {event.get("op"): event.get("time", 0) for event in events if event.get("type") == "invoke"}
    injected = [
        (
            tuple(event.get(name) for name in ("f", "target", "evidence")),
            begun[event.get("op")],
            event["time"],
        )
        for event in events
        if event.get("type") in ("ok", "info") and event.get("op") in begun
    ]
    for fault in files.run_metadata.faults:
        own = (fault.fault, fault.target, fault.evidence)
        times = [(begin_ns / 1e9, end_ns / 1e9) for facts, begin_ns, end_ns in injected if facts == own]
        end_s = fault.start_s if fault.end_s is None else fault.end_s
        yield {
            "fault": fault.fault,
            "target": fault.target,
            "is_there": bool(times),
            "agrees": any(
                begin_s - SLACK_S <= fault.start_s and end_s <= last_s + SLACK_S for begin_s, last_s in times
            ),
        }


def _events(path: Path) -> list[Mapping[str, Any]]:
    """Return the lines of the journal; none if it does not exist or has a line that cannot be read."""
    try:
        if path.stat().st_size > MOST_JOURNAL_BYTES:
            return []
        events = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    except (OSError, orjson.JSONDecodeError):
        return []
    complete = all(isinstance(event, dict) and type(event.get("time")) is int for event in events)
    return events if complete else []


IMPLAUSIBLE: tuple[GapRule[StoredFiles], ...] = (
    GapRule(
        "number-negative",
        _numbers,
        "{name} is {shown}, and it cannot be negative",
        where=lambda row: row["value"] < 0,
    ),
    GapRule(
        "rested-before-the-run",
        once(_rested_before_the_run),
        "the pipeline wrote nothing more (rested_ms) before the run began (wall_ms_at_zero)",
    ),
    GapRule("several-seeds", _seeds, "the seed is {seeds}, and a run has one"),
    GapRule(
        "phase-backwards",
        _phases,
        "the phase {phase} ended before it began",
        where=lambda row: row["length_s"] < 0,
    ),
    GapRule(
        "change-before-workers",
        _changes,
        "{name} began at {start}, and the first worker was started at {first}",
        where=lambda row: row["is_early"],
    ),
    GapRule(
        "change-after-faults",
        _changes,
        "{name} began at {start}, and the run injected no fault after {last}",
        where=lambda row: row["is_late"],
    ),
    GapRule(
        "change-after-the-run",
        _changes,
        "{name} ended at {end}, and the run ended at {run_end}",
        where=lambda row: row["is_long"],
    ),
    GapRule(
        "churn-backwards",
        lambda f: (
            {"stage": change.stage, "length_s": change.end_s - change.start_s}
            for change in f.run_metadata.churn
        ),
        "the change of stage {stage} ended before it began",
        where=lambda row: row["length_s"] < 0,
    ),
    GapRule(
        "time-limit-not-reached",
        _short_faults_phase,
        "the phase {phase} lasted {length}, and the time limit was {limit}",
    ),
    GapRule(
        "fault-of-unknown-worker",
        _targets,
        "{fault} acted on worker {worker}, and the run had no such worker",
        where=lambda row: not row["is_worker_known"],
    ),
    GapRule(
        "fault-of-another-process",
        _targets,
        "{fault} acted on process {process}, and worker {worker} was process {own_process}",
        where=lambda row: row["process"],
    ),
    GapRule(
        "fault-of-unknown-partition",
        _targets,
        "{fault} acted on {partition}, and the run had no such partition",
        where=lambda row: row["partition"],
    ),
    GapRule(
        "fault-of-unknown-broker",
        _targets,
        "{fault} acted on broker {broker}, and the run had no such broker",
        where=lambda row: row["broker"] != "",
    ),
    GapRule(
        "fault-not-in-journal",
        _injections,
        "metadata.json has {fault} of {target}, and the journal of the faults does not",
        where=lambda row: not row["is_there"],
    ),
    GapRule(
        "fault-at-another-time",
        _injections,
        "metadata.json has {fault} of {target} at another time than the journal of the faults",
        where=lambda row: row["is_there"] and not row["agrees"],
    ),
)
"""run.toml and metadata.json say what cannot be."""
RULES = (*DIFFERENCES, *IMPLAUSIBLE)


def describe_gaps(rules: Iterable[GapRule[StoredFiles]], files: StoredFiles) -> list[str]:
    """Return a sentence for each gap.

    Raises various errors if a table is damaged, or if a value has a wrong type.
    """
    return [gap.reason.text for gap in apply_rules(rules, files)]
