"""A step of a trace."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.common.secrets import redact_text
from harness.results.wording import printable

MAX_CHARACTERS = 600
"""Maximum characters of one step."""


@dataclass(frozen=True)
class TraceStep:
    """One event. `time_ns` counts from the start of the run. None: the time is not known."""

    time_ns: int | None
    who: str
    what: str
    source: str  # the table or file that shows it
    content: str | None = None  # of the record; None: the step is not about one, or its content is not stored

    @property
    def words(self) -> str:
        """What happened, without secrets, and the content of the record as it is."""
        what = redact_text(self.what)
        return what if self.content is None else f"{what}, and holds {self.content}"

    def as_json(self) -> dict[str, Any]:
        """Return the object that `fencepost trace --json` prints."""
        return {"time_ns": self.time_ns, "who": self.who, "what": self.words, "source": self.source}


def in_order(steps: Iterable[TraceStep]) -> list[TraceStep]:
    """Sort steps by time. A step without a time stays after the step before it."""
    keyed: list[tuple[int, int, TraceStep]] = []
    last_ns = 0
    for n, step in enumerate(dict.fromkeys(steps)):
        last_ns = step.time_ns if step.time_ns is not None else last_ns
        keyed.append((last_ns, n, step))
    return [step for _, _, step in sorted(keyed, key=lambda entry: entry[:2])]


def step_lines(steps: Sequence[TraceStep]) -> Iterator[str]:
    """Yield one line for each step: the time in seconds, the source, and what happened."""
    width = max((len(step.who) for step in steps), default=0)
    for step in steps:
        time = "          " if step.time_ns is None else f"{step.time_ns / 1e9:8.3f} s"
        yield f"{time}  {printable(step.who, 80):<{width}}  {printable(step.words, MAX_CHARACTERS)}"
