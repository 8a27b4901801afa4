"""Progress: what a user is told, and how often."""

import io
import itertools
from dataclasses import replace

from fencepost.runs.live_progress import LiveProgress
from fencepost.runs.progress import LineProgress, progress_for, status_line
from harness.runner.progress import Tick

TICK = Tick(10.0, 50.0, 2000, 190, 5, 1, 2, 21.4, 12, ("kill-broker: broker 2",))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_every_five_seconds():
    times = itertools.chain([0.0], itertools.count(100.0, 1.0))  # read twice for a line that is told
    stream = io.StringIO()
    progress = LineProgress(stream, lambda: next(times))
    for _ in range(11):
        progress.tick(TICK)
    assert 2 <= stream.getvalue().count("\n") <= 3


def test_a_phase_lets_the_next_tick_through():
    stream = io.StringIO()
    progress = LineProgress(stream, lambda: 1.0)
    for name in ("cluster", "faults"):
        progress.phase(name)
        progress.tick(TICK)
        progress.tick(TICK)
    assert stream.getvalue().count("50 s left") == 2


def test_a_line_says_all_of_it():
    assert status_line(TICK) == (
        "50 s left, 2,000 inputs, 21 txn/s (190 ok, 5 aborted, 1 info, 2 fenced), lag 12, "
        "faults on: kill-broker: broker 2"
    )


def test_a_terminal_shows_all_of_it_and_is_given_back():
    stream = Terminal()
    progress = progress_for(stream)
    assert isinstance(progress, LiveProgress)
    progress.phase("faults")
    progress.tick(TICK)
    progress._live.refresh()
    progress.say("kill-broker struck")
    progress.close()
    progress.close()
    shown = stream.getvalue()
    for part in ("faults", "50 s", "2,000", "190 ok", "2 fenced", "12 inputs", "broker 2", "struck"):
        assert part in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is back


def test_no_terminal_gets_lines():
    assert isinstance(progress_for(io.StringIO()), LineProgress)


def test_of_a_program_that_says_nothing_only_what_is_known_is_told() -> None:
    line = status_line(replace(TICK, counts_known=False, lag=None))
    assert "inputs" in line and "faults on" in line
    assert "txn" not in line and "lag" not in line
