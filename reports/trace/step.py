"""A step of a trace."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class TraceStep:
    """One event. `time_ns` counts from the start of the run. None: the time is not known."""

    time_ns: int | None
    who: str
    what: str
    source: str  # the table or file that shows it


def in_order(steps: Iterable[TraceStep]) -> list[TraceStep]:
    """Sort steps by time. A step without a time stays after the step before it."""
    keyed: list[tuple[int, int, TraceStep]] = []
    last_ns = 0
    for n, step in enumerate(dict.fromkeys(steps)):
        last_ns = step.time_ns if step.time_ns is not None else last_ns
        keyed.append((last_ns, n, step))
    return [step for _, _, step in sorted(keyed, key=lambda entry: entry[:2])]
