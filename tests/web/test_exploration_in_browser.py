"""The page of an exploration in a browser."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from fencepost.exploration.outcome import write_page
from fencepost.exploration.space import CaseVerdict, Exploration, TriedCase, scope_of
from harness.results.reasons import Reason, ReasonCode

NAMES = {
    "CC hold EndTxn#1 > Produce#4": CaseVerdict.WRONG,
    "CC request-lost EndTxn#1": CaseVerdict.RIGHT,
    "CC error-after EndTxn#2 = " + "E" * 300: CaseVerdict.NOT_MET,
}


@pytest.fixture
def page_of_exploration(tmp_path: Path) -> Path:
    record = Exploration("librdkafka-2.8.0", "4.4.0", 2, scope_of(["CC"]))
    record.sent = {"CC": [("EndTxn", 1, "1.end", 1)]}
    record.cases = {
        name: TriedCase(verdict, "batches/001/x", n, proof="p" * 300)
        for n, (name, verdict) in enumerate(NAMES.items())
    }
    record.all_cases = len(NAMES)
    record.unknown_because = [Reason(ReasonCode.INCOMPLETE_EVIDENCE, "<b>a table is missing</b>")]
    (tmp_path / "batches/001/x/cases").mkdir(parents=True)
    (tmp_path / "batches/001/x/cases/0.txt").write_text("EndTxn was held " + "x" * 400, encoding="utf-8")
    record.cases["CC hold EndTxn#1 > Produce#4"].anomalies = ["ghost-commit"]
    write_page(record, tmp_path)
    return tmp_path / "report.html"


@pytest.mark.parametrize("width", [1280, 400])
def test_an_exploration_is_not_wider_than_the_page(
    open_file: Callable[..., Page], page_of_exploration: Path, width: int
) -> None:
    page = open_file(page_of_exploration, width)
    for details in page.locator("details").all():
        details.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_a_number_of_the_matrix_leads_to_its_cases_and_a_case_to_its_text(
    open_file: Callable[..., Page], page_of_exploration: Path
) -> None:
    page = open_file(page_of_exploration, 1280)
    page.locator("#matrix").get_by_role("link", name="1X").click()
    expect(page.locator("#CC-EndTxn-1-hold")).to_be_in_viewport()
    case = page.locator("#cases").get_by_role("link", name="CC hold EndTxn#1 > Produce#4")
    expect(case).to_have_attribute("href", "batches/001/x/cases/0.txt")
