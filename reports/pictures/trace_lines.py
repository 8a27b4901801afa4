"""The lines that `fencepost trace` prints."""

from collections.abc import Iterator, Sequence

from harness.common.wording import printable
from reports.story.model import Point

MAX_CHARACTERS = 600
"""Maximum characters of one point."""


def trace_lines(points: Sequence[Point]) -> Iterator[str]:
    """Yield one line for each point: the time in seconds, the actor, and what happened."""
    width = max((len(point.actor) for point in points), default=0)
    for point in points:
        time = "          " if point.at_ns is None else f"{point.at_ns / 1e9:8.3f} s"
        yield f"{time}  {printable(point.actor, 80):<{width}}  {printable(point.sentence, MAX_CHARACTERS)}"
