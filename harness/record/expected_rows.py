"""Makes rows of the table `expected`: the expected outputs of one input."""

from collections.abc import Sequence

from harness.model.expectation import ExpectedOutput, ExpectedSum
from harness.record.naming import key_name

Cells = tuple[object, ...]


def numbered(rows: Sequence[Cells]) -> list[Cells]:
    """Complete the rows of one input by their index, which shows if one of them is lost."""
    return [(*row, n) for n, row in enumerate(rows)]


def expected_output_row(expected: ExpectedOutput, tp: int, partition: int, offset: int) -> Cells:
    """Return the row of an expected output of an input, without its index. `tp` and `offset` name the input."""
    crc = expected.digest(partition, offset)
    return (
        expected.stage,
        tp,
        offset,
        expected.output_name,
        expected.topic,
        crc,
        None,
        None,
        expected.intermediate_topic,
        expected.correlation_key,
        expected.content,
    )


def expected_sum_row(add: ExpectedSum, tp: int, offset: int) -> Cells:
    """Return the row of an amount that an input adds to a sum, without its index. `tp` and `offset` name the input."""
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
