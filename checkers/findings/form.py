"""The form of a finding: one row, the same for every anomaly, so that all of them go through one job.

It stands by itself because Spark's tasks, which need nothing else of Spark, make such rows too.
"""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

PERMITTED_SUFFIX = "/permitted"
"""Ends the name of a finding that the guarantee of the stage that did it permits: it is counted apart."""
FINDING = pa.schema(
    [
        ("run", pa.int64()),
        ("anomaly", pa.string()),
        ("absence", pa.bool_()),  # rests on something not being there; dropped where evidence is gone
        ("position", pa.list_(pa.int64())),  # the stated order, smallest first
        ("ops", pa.list_(pa.int64())),  # operations that it touches, by which effects are joined to causes
        ("detail", pa.string()),  # JSON
    ]
)
"""In `detail` an object bears a `tp` where it means a partition and an `op` where it means an operation;
`checkers.checking.explain` adds their names.
"""


@dataclass
class Findings:
    """The findings of one anomaly in one run that rest alike on presence or on absence."""

    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)
