"""What a suite tells while it goes on: a block on a terminal, lines elsewhere."""

import io
from pathlib import Path

import pytest

from fencepost.commands.suite import _print_result
from fencepost.suites.progress import RunningCell, SuiteLines, SuiteStatus, TerminalProgress, progress_for
from harness.results.suite import CellState
from tests.support.suites import cell, suite


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def status(running: int = 1) -> SuiteStatus:
    whole = suite()
    return SuiteStatus(whole, [RunningCell(one, 12.0) for one in whole.cells[:running]], 600.0)


def test_a_terminal_has_one_block_and_lines_for_what_needs_a_look() -> None:
    stream = Terminal()
    progress = progress_for(stream)
    assert isinstance(progress, TerminalProgress)
    good, bad = cell(), cell("orders", state=CellState.INVALID)
    for one in (good, bad):
        progress.started(one)
        progress.ended(one)
    progress.status(status)
    progress._live.refresh()
    shown = stream.getvalue()
    for part in ("18 of 20 runs", "about 10 min left", "4 valid", "2 invalid", "shop librdkafka kill-broker"):
        assert part in shown, part
    assert "invalid after 2 min: orders librdkafka kill-broker: 4 inputs took effect more" in shown
    assert "valid after 2 min: shop" not in shown
    progress.phase("runs 1 to 8 of 16: checks")
    progress._live.refresh()
    assert "runs 1 to 8 of 16: checks" in stream.getvalue()
    progress.close()
    progress.close()
    shown = stream.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is back


def test_a_block_has_no_more_lines_than_a_terminal() -> None:
    stream = Terminal()
    progress = TerminalProgress(stream, lambda: 0.0)
    progress.status(lambda: status(running=12))
    progress._live.refresh()
    progress.close()
    assert "and 4 more" in stream.getvalue()


def test_elsewhere_a_line_for_each_run_and_every_twenty_seconds_one_for_the_whole() -> None:
    stream = io.StringIO()
    assert isinstance(progress_for(stream), SuiteLines)
    times = [0.0]
    progress = SuiteLines(stream, lambda: times[0])
    progress.started(cell())
    for times[0] in (1.0, 2.0, 20.0, 22.0):
        progress.status(status)
    progress.ended(cell(state=CellState.NOT_CHECKED))
    progress.status(status)
    said = stream.getvalue()
    assert "started: shop librdkafka kill-broker, seed 7" in said
    assert "ended after 2 min: shop librdkafka kill-broker" in said
    assert said.count("18 of 20 runs have ended, 8 bad so far, 1 running") == 3


def test_the_last_lines_say_where_to_begin_and_what_is_new(capfd: pytest.CaptureFixture[str]) -> None:
    bad = cell("orders", state=CellState.INVALID, first="input purchases/1 offset 812 took effect twice")
    _print_result(suite(cell(), bad), Path("store/nightly/1"), "fencepost suite --resume", as_json=False)
    said = capfd.readouterr().out.splitlines()
    assert said[0].startswith("  invalid (new): orders librdkafka kill-broker: ")
    assert said[1] == "    First: input purchases/1 offset 812 took effect twice"
    assert "suite    nightly: 1 valid, 1 invalid; 1 new since 2026-11-23 20:00 UTC" in said
