"""Helpers of all families."""

from tests.support.histories import History

Counts = dict[str, int]
"""The number of findings by anomaly. An anomaly that is absent has none."""


def start_history(**options: str) -> History:
    """A history with one input that is processed, so that a run is never empty."""
    h = History(**options)  # type: ignore[arg-type]
    h.feed(1)
    h.transact(0)
    return h


def nonzero(**found: int) -> Counts:
    return {name.replace("_", "-"): int(count) for name, count in found.items() if count}
