"""What somebody is told of a suite, and that nothing in it is markup."""

import pytest

from harness.results.suite import CellState
from reports.suites.markdown import MOST_CHANGES, changes, code, plain
from tests.support.suites import cell, suite

HOSTILE = "x @everyone <img src=x> [a](http://evil)\n# big ` `` |"


def test_of_a_suite_without_news_nothing_is_told() -> None:
    assert changes(suite(cell("shop"), cell("echo", state=CellState.UNKNOWN))) == ""


def test_what_is_new_is_told_with_its_command_and_no_more_than_anybody_reads() -> None:
    bad = [
        cell(f"w{n}", state=CellState.INVALID, reason="4 inputs lost", new=True)
        for n in range(MOST_CHANGES + 3)
    ]
    told = changes(suite(*bad, cell("fine")))
    assert told.count("### ") == MOST_CHANGES and "Bad, but not in the suite before: 23 runs." in told
    assert told.rstrip().endswith("3 more runs are in index.html.")
    assert "invalid: 4 inputs lost" in told and "fine" not in told


@pytest.mark.parametrize(
    ("states", "interrupted", "words"),
    [
        ([CellState.NOT_CHECKED, CellState.VALID], False, "1 run ended but could not be checked."),
        ([CellState.NOT_RUN, CellState.NOT_RUN], False, "No run was started."),
        ([CellState.VALID, CellState.NOT_RUN], True, "The suite was interrupted."),
    ],
)
def test_that_runs_have_no_answer_is_news(states: list[CellState], interrupted: bool, words: str) -> None:
    cells = [cell(f"w{n}", state=state) for n, state in enumerate(states)]
    assert words in changes(suite(*cells, interrupted=interrupted))


def test_what_a_program_said_is_text_and_nothing_else() -> None:
    told = changes(suite(cell("shop", state=CellState.FAILED, reason=HOSTILE, command=HOSTILE, new=True)))
    assert "@everyone" not in told.replace(code(HOSTILE), "")
    assert "\n# big" not in told and " <img" not in told.replace(code(HOSTILE), "")
    assert plain("kill-worker@after-send") == "kill-worker@after-send"
    assert code("a `` b") == "``` a `` b ```"


def test_seeds_with_one_cause_are_told_once() -> None:
    bad = [
        cell("shop", name=f"shop #{n}", more={"repeat": str(n)}, state=CellState.INVALID, new=True, seed=n)
        for n in (1, 2)
    ]
    told = changes(suite(*bad))
    assert told.count("### ") == 1 and "### shop (2 of 2 seeds)" in told and "(seed 1)" in told
