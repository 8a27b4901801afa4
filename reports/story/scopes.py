"""Scopes of the story: the points of one record, operation, transactional id or fault, in order of time."""

from reports.story import by_journals, by_logs
from reports.story.model import Point
from reports.story.run import Story


def of_operation(story: Story, name: str) -> list[Point]:
    """Return the points of an operation such as `shop-2.1:10`. Raises `UsageError` if the run has no such
    operation.
    """
    return by_journals.of_operation(story, name)


def of_record(story: Story, topic: str, partition: int, offset: int) -> list[Point]:
    """Return the points of a record: its writer, its transaction, its readers, and records that belong to it. Raises
    `UsageError` if the run has no such record.
    """
    if story.tables.without_journals:
        return by_logs.of_record(story, topic, partition, offset)
    return by_journals.of_record(story, topic, partition, offset)


def of_id(story: Story, transactional_id: str) -> list[Point]:
    """Return the points of a transactional id. Raises `UsageError` if the run does not have it."""
    of_id_by = by_logs.of_id if story.tables.without_journals else by_journals.of_id
    return of_id_by(story, transactional_id)


def of_fault(story: Story, number: int) -> list[Point]:
    """Return the points around a fault, counted from 1. Raises `UsageError` if the run has no such fault."""
    of_fault_by = by_logs.of_fault if story.tables.without_journals else by_journals.of_fault
    return of_fault_by(story, number)
