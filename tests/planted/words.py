"""Helpers of all families."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from tests.support.histories import History

T = TypeVar("T")
Counts = dict[str, int]
"""The number of findings by anomaly. An anomaly that is absent has none."""


def start_history(**options: str) -> History:
    """A history with one input that is processed, so that a run is never empty."""
    h = History(**options)  # type: ignore[arg-type]
    h.feed(1)
    h.transact(0)
    return h


TOGETHER = 12
"""The number of small logs in one run. A log affects only its own producer, and each run takes time."""


def together(logs: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split logs into those of each run."""
    return (logs[at : at + TOGETHER] for at in range(0, len(logs), TOGETHER))


def nonzero(**found: int) -> Counts:
    return {name.replace("_", "-"): int(count) for name, count in found.items() if count}
