"""What a trace is made of."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class TraceStep:
    """One thing that happened. `time_ns`: since the run began; None: nobody dated it."""

    time_ns: int | None
    who: str
    what: str
    source: str  # the table that says so, and where


def in_order(steps: Iterable[TraceStep]) -> list[TraceStep]:
    """In order of time; what nobody dated stands behind what it was found with."""
    placed: list[tuple[int, int, TraceStep]] = []
    last_ns = 0
    for n, step in enumerate(dict.fromkeys(steps)):
        last_ns = step.time_ns if step.time_ns is not None else last_ns
        placed.append((last_ns, n, step))
    return [step for _, _, step in sorted(placed, key=lambda one: one[:2])]
