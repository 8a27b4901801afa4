"""Find what the metadata of a run says and what cannot be: a fault before the run, or of a worker that it did not have.

Such metadata prove nothing, so the run is `unknown`. Each text names the fact.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from harness.model.pipeline import PipelineSpec
from harness.record.parquet_reader import read_parquet
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


def find_implausible(folder: Path, plan: StoredPlan, run_metadata: RunMetadata) -> Iterator[str]:
    """Yield each fact in run.toml and metadata.json that cannot be.

    Raises various errors if a table is damaged, or if a value has a wrong type.
    """
    yield from _impossible_numbers(plan, run_metadata)
    yield from _impossible_times(run_metadata)
    yield from _too_short(plan, run_metadata)
    pids = {
        row["journal"]: row["pid"]
        for row in read_parquet(folder / "history" / "journals.parquet", ["journal", "pid"]).to_pylist()
    }
    rows = read_parquet(folder / "history" / "partitions.parquet", ["topic", "partition"]).to_pylist()
    partitions = {f"{row['topic']}/{row['partition']}" for row in rows}
    partitions |= {f"{topic}/{number}" for topic, number in plan.pipeline.topic_partitions}
    brokers = _brokers(folder, plan)
    for fault in run_metadata.faults:
        yield from _impossible_target(fault, plan.pipeline, run_metadata, pids)
        partition = fault.details.get("partition", "__")
        # The partitions of internal topics are not known if their logs were not read.
        if not partition.startswith("__") and partition not in partitions:
            yield f"{fault.fault} acted on {partition}, and the run had no such partition"
        named = re.findall(r"\d+", f"{fault.details.get('broker', '')} {fault.details.get('brokers', '')}")
        if brokers and (others := sorted(set(map(int, named)) - brokers)):
            yield f"{fault.fault} acted on broker {others[0]}, and the run had no such broker"
    yield from _not_in_journal(folder / "journals" / "nemesis.jsonl", run_metadata)


def _brokers(folder: Path, plan: StoredPlan) -> set[int]:
    """Return the brokers of a run; empty if the logs of all of them were not read."""
    path = folder / "log" / "replicas.parquet"
    if not plan.promises.replicas or not path.is_file():
        return set()
    return {*range(1, plan.options.brokers + 1), *read_parquet(path, ["broker"])["broker"].to_pylist()}


def _impossible_numbers(plan: StoredPlan, run_metadata: RunMetadata) -> Iterator[str]:
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
        if value is not None and value < 0:
            yield f"{name} is {value:g}, and it cannot be negative"
    zero_ms, rested_ms = plan.run.get("wall_ms_at_zero"), run_metadata.rested_ms
    # Somebody may have set the wall clock back during the run. A negative drift is reported above.
    moved_ms = max(run_metadata.clock_drift_ms or 0.0, 0.0)
    if zero_ms is not None and rested_ms is not None and rested_ms + moved_ms < zero_ms:
        yield "the pipeline wrote nothing more (rested_ms) before the run began (wall_ms_at_zero)"
    seeds = {seed for seed in (plan.options.seed, plan.run.get("seed")) if seed is not None}
    if len(seeds) > 1:
        yield f"the seed is {' and '.join(map(str, sorted(seeds)))}, and a run has one"


def _impossible_times(run_metadata: RunMetadata) -> Iterator[str]:
    phases = {phase.name: phase for phase in run_metadata.phases}
    for phase in run_metadata.phases:
        if phase.end_s < phase.start_s:
            yield f"the phase {phase.name} ended before it began"
    end_s = max((phase.end_s for phase in run_metadata.phases), default=None)
    begin = phases.get(WORKERS)
    last = phases.get(FAULTS) or begin
    changes = [
        *((fault.fault, fault.start_s, fault.end_s) for fault in run_metadata.faults),
        *(
            (f"the change of stage {change.stage}", change.start_s, change.end_s)
            for change in run_metadata.churn
        ),
    ]
    for name, start_s, healed_s in changes:
        if begin is not None and start_s < begin.start_s - SLACK_S:
            yield f"{name} began at {start_s:g} s, and the first worker was started at {begin.start_s:g} s"
        if last is not None and start_s > last.end_s + SLACK_S:
            yield f"{name} began at {start_s:g} s, and the run injected no fault after {last.end_s:g} s"
        if end_s is not None and healed_s is not None and healed_s > end_s + SLACK_S:
            yield f"{name} ended at {healed_s:g} s, and the run ended at {end_s:g} s"
    for change in run_metadata.churn:
        if change.end_s < change.start_s:
            yield f"the change of stage {change.stage} ended before it began"


def _too_short(plan: StoredPlan, run_metadata: RunMetadata) -> Iterator[str]:
    """Yield a message if the run ended long before its time limit, and nothing says why."""
    limit_s = plan.options.time_limit_s
    if run_metadata.interrupted or run_metadata.evidence_problems:
        return
    for phase in run_metadata.phases:
        length_s = phase.end_s - phase.start_s
        if phase.name == FAULTS and 0 <= length_s < limit_s - SLACK_S:
            yield f"the phase {FAULTS} lasted {length_s:g} s, and the time limit was {limit_s:g} s"


def _impossible_target(
    fault: FaultReport, pipeline: PipelineSpec, run_metadata: RunMetadata, pids: Mapping[str, int | None]
) -> Iterator[str]:
    """Yield why a fault cannot have had its worker. `pids` has the process ids of the workers by journal."""
    journal = fault.details.get("worker")
    if journal is None:
        return
    joined = {name for change in run_metadata.churn for name in (change.joined, change.left) if name}
    known = {worker for stage in pipeline.stages for worker in stage.workers}
    if journal not in pids and (
        pipeline.journaled or not {journal, journal.rpartition(".")[0]} & {*known, *joined}
    ):
        yield f"{fault.fault} acted on worker {journal}, and the run had no such worker"
    # A fault on a broker may wait for a step of a worker: its process is the broker then.
    own = pids.get(journal) if fault.target.startswith(f"worker {journal}") else None
    in_evidence = set(map(int, OF_PROCESS.findall(fault.evidence)))
    if own is not None and in_evidence and own not in in_evidence:
        named = " and ".join(map(str, sorted(in_evidence)))
        yield f"{fault.fault} acted on process {named}, and worker {journal} was process {own}"


def _not_in_journal(path: Path, run_metadata: RunMetadata) -> Iterator[str]:
    """Yield each fault that the journal of the faults does not have, or has at another time.

    A journal that is missing or incomplete proves nothing.
    """
    events = _events(path)
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
    for fault in run_metadata.faults:
        own = (fault.fault, fault.target, fault.evidence)
        times = [(begin_ns / 1e9, end_ns / 1e9) for facts, begin_ns, end_ns in injected if facts == own]
        if not times:
            yield f"metadata.json has {fault.fault} of {fault.target}, and the journal of the faults does not"
        elif not any(
            begin_s - SLACK_S <= fault.start_s
            and (fault.start_s if fault.end_s is None else fault.end_s) <= end_s + SLACK_S
            for begin_s, end_s in times
        ):
            yield f"metadata.json has {fault.fault} of {fault.target} at another time than the journal of the faults"


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
