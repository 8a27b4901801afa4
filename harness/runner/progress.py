"""What a run tells while it goes on; the front door decides how it is shown."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Tick:
    """The state of a run at one moment. Times are seconds, counts are since the run began."""

    elapsed_s: float
    left_s: float
    inputs: int
    committed: int
    aborted: int
    info: int
    fenced: int
    rate_tps: float  # committed transactions a second, since the last tick
    lag: int | None  # inputs that no commit has reached yet; None: not known now
    faults: tuple[str, ...] = ()  # those that are on
    told: bool = True  # the pipeline says what it does; else nothing is known of its transactions yet


class Progress(Protocol):
    """Where a run tells how it goes."""

    def phase(self, name: str) -> None:
        """A part of the run begins."""
        ...

    def say(self, text: str) -> None:
        """A line that stays."""
        ...

    def tick(self, tick: Tick) -> None:
        """How it goes now."""
        ...

    def close(self) -> None:
        """Nothing more will be told."""
        ...
