"""Traces of runs of both kinds: from the journals if a stage keeps them, and else from the broker logs alone."""

from harness.record.table_reader import RunTables
from reports.trace import by_journals, by_logs, faults
from reports.trace.step import TraceStep


def of_operation(t: RunTables, name: str) -> list[TraceStep]:
    """Return the steps of an operation such as `shop-2.1:10`. Raises `UsageError` if the run has no such
    operation.
    """
    return by_journals.of_operation(t, name)


def of_record(t: RunTables, topic: str, partition: int, offset: int) -> list[TraceStep]:
    """Return the steps of a record: its writer, its transaction, its readers, and records that belong to it. Raises
    `UsageError` if the run has no such record.
    """
    if t.without_journals:
        return by_logs.of_record(t, topic, partition, offset)
    return by_journals.of_record(t, topic, partition, offset)


def of_id(t: RunTables, transactional_id: str) -> list[TraceStep]:
    """Return the steps of a transactional id. Raises `UsageError` if the run does not have it."""
    return (
        by_logs.of_id(t, transactional_id) if t.without_journals else by_journals.of_id(t, transactional_id)
    )


def of_fault(t: RunTables, number: int) -> list[TraceStep]:
    """Return the steps around a fault, counted from 1. Raises `UsageError` if the run has no such fault."""
    return by_logs.of_fault(t, number) if t.without_journals else faults.of_fault(t, number)
