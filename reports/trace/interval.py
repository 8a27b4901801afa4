"""What both kinds of traces need: the record at a position, a fault by its number, and the faults in an interval."""

from collections.abc import Iterator

from harness.common.errors import UnreadableInput, UsageError
from harness.record.table_reader import Row, RunTables
from harness.results.verdict import FaultReport
from harness.results.wording import plural
from reports.trace.step import TraceStep
from reports.under_way import nanoseconds


def record_at(t: RunTables, topic: str, partition: int, offset: int) -> Row:
    """Return the record at this position. Raises `UsageError` if there is none."""
    tp = t.numbers.get((topic, partition))
    record = next(iter(t.rows("records", tp=[tp], offset=[offset])), None) if tp is not None else None
    if record is None:
        raise UsageError(f"the run has no record at {topic}/{partition}@{offset}")
    return record


def fault_at(t: RunTables, number: int) -> FaultReport:
    """Return a fault, counted from 1. Raises `UsageError`, or `UnreadableInput` if its times are wrong."""
    faults = t.metadata.faults
    if not 1 <= number <= len(faults):
        raise UsageError(f"the run has no fault {number}: it has {plural(len(faults), 'fault')}")
    fault = faults[number - 1]
    if None in (nanoseconds(fault.start_s), nanoseconds(fault.end_s or 0.0)):
        raise UnreadableInput(
            f"metadata.json has wrong times for fault {number}: from {fault.start_s} to {fault.end_s} s"
        )
    return fault


def faults_on(t: RunTables, begun_ns: int, ended_ns: int) -> Iterator[TraceStep]:
    """Yield the faults in this interval."""
    for number, fault in enumerate(t.metadata.faults, 1):
        start, end = round(fault.start_s * 1e9), round((fault.end_s or fault.start_s) * 1e9)
        if start <= ended_ns and end >= begun_ns:
            yield TraceStep(start, f"fault {number}", f"{fault.struck} ({fault.evidence})", "metadata.json")
            yield TraceStep(end, f"fault {number}", f"{fault.fault} is over", "metadata.json")
