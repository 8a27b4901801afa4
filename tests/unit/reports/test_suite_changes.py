"""The news of a suite, which contain no markup from a run."""

import pytest

from harness.results.suite import CellState
from reports.suites.markdown import MOST_CHANGES, changes, code, plain
from tests.support.suites import cell, suite

HOSTILE = "x @everyone <img src=x> [a](http://evil)\n# big ` `` |"


def test_a_suite_without_news_has_no_text() -> None:
    assert changes(suite(cell("shop"), cell("echo", state=CellState.UNKNOWN))) == ""


def test_new_failures_are_listed_with_their_commands_up_to_a_limit() -> None:
    bad = [
        cell(f"w{n}", state=CellState.INVALID, reason="4 inputs lost", new=True)
        for n in range(MOST_CHANGES + 3)
    ]
    text = changes(suite(*bad, cell("fine")))
    assert text.count("### ") == MOST_CHANGES and "Bad, but not in the suite before: 23 runs." in text
    assert text.rstrip().endswith("3 more runs are in index.html.")
    assert "invalid: 4 inputs lost" in text and "fine" not in text


@pytest.mark.parametrize(
    ("states", "interrupted", "words"),
    [
        ([CellState.NOT_CHECKED, CellState.VALID], False, "1 run ended but could not be checked."),
        ([CellState.NOT_RUN, CellState.NOT_RUN], False, "No run was started."),
        ([CellState.VALID, CellState.NOT_RUN], True, "The suite was interrupted."),
    ],
)
def test_runs_without_a_verdict_are_news(states: list[CellState], interrupted: bool, words: str) -> None:
    cells = [cell(f"w{n}", state=state) for n, state in enumerate(states)]
    assert words in changes(suite(*cells, interrupted=interrupted))


def test_recorded_text_cannot_become_markup() -> None:
    text = changes(suite(cell("shop", state=CellState.FAILED, reason=HOSTILE, command=HOSTILE, new=True)))
    assert "@everyone" not in text.replace(code(HOSTILE), "")
    assert "\n# big" not in text and " <img" not in text.replace(code(HOSTILE), "")
    assert plain("kill-worker@after-send") == "kill-worker@after-send"
    assert code("a `` b") == "``` a `` b ```"


def test_seeds_with_one_cause_are_one_entry() -> None:
    bad = [
        cell("shop", name=f"shop #{n}", more={"repeat": str(n)}, state=CellState.INVALID, new=True, seed=n)
        for n in (1, 2)
    ]
    text = changes(suite(*bad))
    assert text.count("### ") == 1 and "### shop (2 of 2 seeds)" in text and "(seed 1)" in text
