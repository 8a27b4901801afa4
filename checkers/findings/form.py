"""The form of a finding: one row, the same for every anomaly, so that one job collects all findings.

This module does not import Spark, because Spark's tasks make such rows in Python and need nothing else.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from harness.results.example import Example

PERMITTED_SUFFIX = "/permitted"
"""Suffix of the name of a finding that the guarantee of its stage permits. Such findings are counted separately."""
UNDECIDED_INFIX = "/undecided: "
"""In the name of a row that may be a finding: after the anomaly, and before why it is not decided."""
FINDING = pa.schema(
    [
        ("run", pa.int64()),
        ("anomaly", pa.string()),
        ("absence", pa.bool_()),  # rests on something that is missing; dropped if evidence is gone
        ("position", pa.list_(pa.int64())),  # the order of examples, smallest first
        ("ops", pa.list_(pa.int64())),  # operations that it concerns; they join effects to causes
        (
            "detail",
            pa.string(),
        ),  # the example as JSON; `harness.results.example.KINDS` says what its keys hold
    ]
)
"""In `detail`, a part that names a partition has the field `tp`, and one that names an operation has the field `op`.
`checkers.checking.explain` adds their names.
"""


@dataclass
class Findings:
    """The findings of one anomaly in one run: either all that rest on absence, or all that do not."""

    count: int = 0
    examples: list[Example] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)  # of the examples, in the same order
