"""Progress of a run on a terminal: lines for phases that have ended, and a block with the current state below."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.common.progress import ProgressSnapshot


class LiveProgress:
    """Redraws the block four times a second until it is closed."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._phase: tuple[str, float] | None = None
        self._snapshot: ProgressSnapshot | None = None
        self._live = Live(
            console=Console(file=stream),
            get_renderable=self._draw,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,  # standard output is for the verdict
        )
        self._live.start()

    def phase(self, name: str) -> None:
        """Begin a phase. Print a line with the duration of the one before."""
        self._finish()
        self._phase = (name, self._clock())

    def say(self, text: str) -> None:
        """Print a line above the block."""
        self._live.console.print(Text(text))

    def update(self, snapshot: ProgressSnapshot) -> None:
        """Show this state when the block is redrawn."""
        self._snapshot = snapshot

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Remove the block, and draw it again afterwards."""
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def close(self) -> None:
        """Remove the block and restore the terminal."""
        self._finish()
        self._live.stop()

    def _finish(self) -> None:
        phase, self._phase, self._snapshot = self._phase, None, None
        if phase is not None:
            name, began = phase
            self.say(f"{self._clock() - began:6.1f} s  {name}")

    def _draw(self) -> Group:
        if self._phase is None:
            return Group()
        name, began = self._phase
        head = Text(f"{self._clock() - began:6.1f} s  {name}", style="bold")
        return Group(head, _state(self._snapshot)) if self._snapshot else Group(head)


def _state(snapshot: ProgressSnapshot) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim")
    table.add_column()
    table.add_row("left", _time(snapshot))
    table.add_row("inputs", f"{snapshot.inputs:,}")
    transactions = Text(
        f"{snapshot.rate_tps:,.0f} a second: {snapshot.committed:,} ok, {snapshot.aborted:,} aborted, "
    )
    transactions.append(
        f"{snapshot.info:,} info, {snapshot.fenced:,} fenced",
        style="yellow" if snapshot.info or snapshot.fenced else "",
    )
    if snapshot.counts_known:
        table.add_row("transactions", transactions)
        table.add_row("lag", "not known" if snapshot.lag is None else f"{snapshot.lag:,} inputs")
    faults = (
        Text("\n".join(snapshot.faults), style="bold red") if snapshot.faults else Text("none", style="green")
    )
    table.add_row("faults on", faults)
    return table


def _time(snapshot: ProgressSnapshot) -> Table:
    total = max(snapshot.elapsed_s + snapshot.left_s, 1e-9)
    line = Table.grid(padding=(0, 1))
    line.add_row(
        f"{snapshot.left_s:4.0f} s", ProgressBar(total=total, completed=snapshot.elapsed_s, width=40)
    )
    return line
