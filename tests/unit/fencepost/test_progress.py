"""Progress of a run: its content, and how often it is printed."""

import io
import itertools
from dataclasses import replace

from fencepost.commands.output import progress_for
from fencepost.terminal_progress import LiveProgress
from harness.common.progress import LineProgress, ProgressSnapshot, status_line

SNAPSHOT = ProgressSnapshot(10.0, 50.0, 2000, 190, 5, 1, 2, 21.4, 12, ("kill-broker: broker 2",))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_every_five_seconds():
    times = itertools.chain(
        [0.0], itertools.count(100.0, 1.0)
    )  # the clock is read twice for each printed line
    stream = io.StringIO()
    progress = LineProgress(stream, lambda: next(times))
    for _ in range(11):
        progress.update(SNAPSHOT)
    assert 2 <= stream.getvalue().count("\n") <= 3


def test_after_a_phase_the_next_state_is_printed_at_once():
    stream = io.StringIO()
    progress = LineProgress(stream, lambda: 1.0)
    for name in ("cluster", "faults"):
        progress.phase(name)
        progress.update(SNAPSHOT)
        progress.update(SNAPSHOT)
    assert stream.getvalue().count("50 s left") == 2


def test_a_line_has_the_whole_state():
    assert status_line(SNAPSHOT) == (
        "50 s left, 2,000 inputs, 21 txn/s (190 ok, 5 aborted, 1 info, 2 fenced), lag 12, "
        "faults on: kill-broker: broker 2"
    )


def test_a_terminal_shows_the_whole_state_and_is_restored():
    stream = Terminal()
    progress = progress_for(stream)
    assert isinstance(progress, LiveProgress)
    progress.phase("faults")
    progress.update(SNAPSHOT)
    progress._live.refresh()
    progress.say("kill-broker was injected")
    progress.close()
    progress.close()
    output = stream.getvalue()
    for part in ("faults", "50 s", "2,000", "190 ok", "2 fenced", "12 inputs", "broker 2", "was injected"):
        assert part in output
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")  # the cursor is back


def test_a_stream_that_is_no_terminal_gets_lines():
    assert isinstance(progress_for(io.StringIO()), LineProgress)


def test_without_journals_transactions_and_lag_are_left_out() -> None:
    line = status_line(replace(SNAPSHOT, counts_known=False, lag=None))
    assert "inputs" in line and "faults on" in line
    assert "txn" not in line and "lag" not in line
