"""The page of an external history in a browser."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from harness.results.verdict import Validity, Verdict
from reports.html.history import draw
from tests.support.findings import findings_of

OPERATIONS = [
    {
        "op": 10 * n, "process": n, "f": "poll", "outcome": "ok", "invoked": 10 * n - 5,
        "invoke_ns": n * 1_700_000, "complete_ns": n * 1_900_000, "key": "k" * 300, "value": "v" * 300,
    }
    for n in range(1, 7)
]  # fmt: skip


@pytest.fixture
def page_of_history(tmp_path: Path) -> Path:
    example = {"record": {"key": "k" * 300, "value": 1, "offset": 2**60}, "operations": OPERATIONS}
    anomalies = {"duplicate": findings_of(3, [example, example], words="3 values are stored twice")}
    verdict = Verdict(
        "h" * 200, "h" * 200, None, Validity.INVALID.json, "found " * 40, anomalies, stats={"ops": 2}
    )
    (tmp_path / "page.html").write_text(draw(verdict, "fencepost check " + "h" * 200), encoding="utf-8")
    return tmp_path / "page.html"


@pytest.mark.parametrize("width", [1280, 400])
def test_a_history_is_not_wider_than_the_page(
    open_file: Callable[..., Page], page_of_history: Path, width: int
) -> None:
    page = open_file(page_of_history, width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    drawn = page.locator("#duplicate-1 svg").filter(visible=True)
    expect(drawn).to_have_count(1)
    page.get_by_role("link", name="Repeat").click()
    expect(page.locator("#command")).to_be_in_viewport()


def test_more_examples_are_shown_on_request(open_file: Callable[..., Page], page_of_history: Path) -> None:
    page = open_file(page_of_history)
    second = page.locator("#duplicate-2")
    expect(second).to_be_hidden()
    page.get_by_text("1 more example").click()
    expect(second).to_be_visible()
