"""Progress of a suite: a block on a terminal, lines on other streams."""

import io
from pathlib import Path

import pytest

from fencepost.commands.suite import _print_result
from fencepost.terminal_progress import (
    RunningCell,
    SuiteLines,
    SuiteStatus,
    TerminalProgress,
    suite_progress_for,
)
from harness.results.suite import CellState
from tests.support.suites import cell, suite


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def status(running: int = 1) -> SuiteStatus:
    suite_ = suite()
    return SuiteStatus(suite_, [RunningCell(cell_, 12.0) for cell_ in suite_.cells[:running]], 600.0)


def test_a_terminal_has_a_block_and_a_line_for_each_bad_run() -> None:
    stream = Terminal()
    progress = suite_progress_for(stream)
    assert isinstance(progress, TerminalProgress)
    good, bad = cell(), cell("orders", state=CellState.INVALID)
    for cell_ in (good, bad):
        progress.started(cell_)
        progress.ended(cell_)
    progress.status(status)
    progress._live.refresh()
    output = stream.getvalue()
    for part in ("18 of 20 runs", "about 10 min left", "4 valid", "2 invalid", "shop librdkafka kill-broker"):
        assert part in output, part
    assert "invalid after 2 min: orders librdkafka kill-broker: 4 inputs took effect more" in output
    assert "valid after 2 min: shop" not in output
    progress.phase("runs 1 to 8 of 16: checks")
    progress._live.refresh()
    assert "runs 1 to 8 of 16: checks" in stream.getvalue()
    progress.close()
    progress.close()
    output = stream.getvalue()
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")  # the cursor is back


def test_a_block_lists_at_most_eight_runs() -> None:
    stream = Terminal()
    progress = TerminalProgress(stream, lambda: 0.0)
    progress.status(lambda: status(running=12))
    progress._live.refresh()
    progress.close()
    assert "and 4 more" in stream.getvalue()


def test_other_streams_get_lines_for_runs_and_a_status_every_20_seconds() -> None:
    stream = io.StringIO()
    assert isinstance(suite_progress_for(stream), SuiteLines)
    times = [0.0]
    progress = SuiteLines(stream, lambda: times[0])
    progress.started(cell())
    for times[0] in (1.0, 2.0, 20.0, 22.0):
        progress.status(status)
    progress.ended(cell(state=CellState.NOT_CHECKED))
    progress.status(status)
    output = stream.getvalue()
    assert "started: shop librdkafka kill-broker, seed 7" in output
    assert "ended after 2 min: shop librdkafka kill-broker" in output
    assert output.count("18 of 20 runs have ended, 8 bad so far, 1 running") == 3


def test_the_result_has_the_first_example_and_the_new_failures(capfd: pytest.CaptureFixture[str]) -> None:
    bad = cell("orders", state=CellState.INVALID, first="input purchases/1 offset 812 took effect twice")
    _print_result(suite(cell(), bad), Path("store/nightly/1"), "fencepost suite --resume", as_json=False)
    output = capfd.readouterr().out.splitlines()
    assert output[0].startswith("  invalid (new): orders librdkafka kill-broker: ")
    assert output[1] == "    First: input purchases/1 offset 812 took effect twice"
    assert "suite    nightly: 1 valid, 1 invalid; 1 new since 2026-11-23 20:00 UTC" in output
