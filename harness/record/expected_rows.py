"""Rows of the table `expected`, as a final reader writes them: what one input must lead to."""

from harness.expectation import Adds, Due
from harness.record.naming import key_name


def due_row(due: Due, tp: int, partition: int, offset: int) -> tuple[object, ...]:
    """An output that the input at that place must lead to."""
    crc = due.digest(partition, offset)
    return (due.stage, tp, offset, due.slot, due.topic, crc, None, None, due.via, due.about, due.content)


def adds_row(add: Adds, tp: int, offset: int) -> tuple[object, ...]:
    """Something that it adds to a sum."""
    return (
        add.stage,
        tp,
        offset,
        None,
        add.topic,
        None,
        key_name(add.key),
        add.amount,
        None,
        None,
        add.content,
    )
