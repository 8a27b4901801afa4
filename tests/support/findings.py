"""Findings with examples that a test writes as JSON."""

from collections.abc import Sequence
from typing import Any

from harness.results.example import Example
from harness.results.verdict import AnomalyFindings


def objects_without_kind(example: Example) -> list[str]:
    """Return the keys of an example that hold objects although `KINDS` does not name them."""
    return [
        key
        for key, value in example.rest.items()
        if any(isinstance(item, dict) for item in (value if isinstance(value, list) else [value]))
    ]


def findings_of(count: int, examples: Sequence[dict[str, Any]], **more: Any) -> AnomalyFindings:
    """Return the findings of an anomaly."""
    return AnomalyFindings(count, examples=[Example.from_json(example) for example in examples], **more)
