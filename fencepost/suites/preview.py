"""What a suite would do, before it does anything: its runs, how long they take, and which a limit leaves out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fencepost.suites import past
from fencepost.suites.forecast import NO_TIME, Forecast, Outlook
from fencepost.suites.plan import Planned
from harness.suite import State, Suite
from harness.telling.words import length, several


@dataclass(frozen=True)
class Preview:
    """`suite`: with the reason of each run that a limit leaves out."""

    suite: Suite
    outlook: Outlook
    jobs: int
    cramped: bool  # more were asked for than memory permits
    limited: bool
    judging_s: float | None  # of all that would be judged together; None: nothing was measured

    def lines(self) -> Iterator[str]:
        """How long it takes, and each run with the command that is this run alone."""
        suite = self.suite
        yield f"suite {suite.name}, seed {suite.seed}: {several(len(suite.cells), 'run')}"
        yield self._time()
        for cell in suite.cells:
            told = cell.reason if cell.state is State.NOT_RUN else str(cell.state)
            yield f"  {cell.name}{f': {told}' if told else ''}"
            yield f"    {cell.command}"

    def _time(self) -> str:
        begun, left_out = len(self.outlook.begun), len(self.outlook.left_out)
        if not begun and not left_out:
            return f"all runs are over{self._judging()}"
        side = f"with {self.jobs} side by side" if self.jobs > 1 else "one at a time"
        side += ", as many as memory permits" if self.cramped else ""
        runs = several(begun, "run")
        if self.limited:
            runs = f"the limit leaves time for {begun} of {several(begun + left_out, 'run')}"
        told = f"{runs}: about {length(self.outlook.seconds)} {side}" if begun else runs
        return f"{told}{self._judging()}"

    def _judging(self) -> str:
        over = any(cell.state is State.NOT_JUDGED for cell in self.suite.cells)
        if not over and (not self.outlook.begun or self.suite.judge == "each"):
            return ""
        about = "" if self.judging_s is None else f": about {length(self.judging_s)}"
        return f"; judging comes after them{about}"


def preview(
    planned: Planned, earlier: Sequence[Suite], jobs: int, room: int, limit_s: float | None
) -> Preview:
    """What is left of a suite, foreseen. `earlier`: suites of this name, newest first; `jobs`: runs side by side, at
    most; `room`: for how many there is memory.
    """
    waiting = [cell for cell in planned.suite.cells if cell.state is State.NOT_RUN]
    if limit_s is not None:
        waiting = past.least_lately(waiting, earlier)
    at_once = max(1, min(jobs, room, len(waiting)))
    forecast = Forecast(planned.options, past.overheads(earlier), planned.suite.cells)
    outlook = forecast.outlook(waiting, at_once, limit_s)
    out = {cell.name for cell in outlook.left_out}
    cells = [
        replace(cell, reason=NO_TIME if cell.name in out else "") if cell.state is State.NOT_RUN else cell
        for cell in planned.suite.cells
    ]
    over = sum(cell.state is State.NOT_JUDGED for cell in cells)
    each_s = past.judging_s(earlier)
    judging_s = None if each_s is None else each_s * (over + len(outlook.begun))
    suite = replace(planned.suite, cells=cells)
    return Preview(suite, outlook, at_once, room < min(jobs, len(waiting)), limit_s is not None, judging_s)
