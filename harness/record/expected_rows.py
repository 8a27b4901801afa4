"""Rows of the table `expected`, as a final reader writes them: what one input must lead to."""

from harness.model.expectation import ExpectedOutput, ExpectedSum
from harness.record.naming import key_name


def expected_output_row(due: ExpectedOutput, tp: int, partition: int, offset: int) -> tuple[object, ...]:
    """An output that the input at that place must lead to."""
    crc = due.digest(partition, offset)
    return (
        due.stage,
        tp,
        offset,
        due.output_name,
        due.topic,
        crc,
        None,
        None,
        due.intermediate_topic,
        due.correlation_key,
        due.content,
    )


def expected_sum_row(add: ExpectedSum, tp: int, offset: int) -> tuple[object, ...]:
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
