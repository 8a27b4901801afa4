"""The progress of a run. A command implements `Progress` to show it."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ProgressSnapshot:
    """The state of a run at one moment. Counts are totals since the start of the run."""

    elapsed_s: float
    left_s: float  # until the time limit
    inputs: int
    committed: int  # transactions, as the next two
    aborted: int
    info: int
    fenced: int  # how often workers were fenced
    rate_tps: float  # committed transactions per second, over about the last second
    lag: int | None  # inputs that are not committed yet; None: not known
    faults: tuple[str, ...] = ()  # the active faults
    counts_known: bool = True  # False for a custom pipeline: the counts of transactions are then not known


class Progress(Protocol):
    """Shows the progress of a run."""

    def phase(self, name: str) -> None:
        """Show that a phase of the run begins."""
        ...

    def say(self, text: str) -> None:
        """Show a line that is not overwritten by later updates."""
        ...

    def update(self, snapshot: ProgressSnapshot) -> None:
        """Show the current state of the run."""
        ...

    def hidden(self) -> AbstractContextManager[None]:
        """Hide what later updates would overwrite, while something else prints to the same terminal."""
        ...

    def close(self) -> None:
        """End the output."""
        ...
