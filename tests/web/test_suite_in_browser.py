from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from harness.results.suite import CellState, Suite
from reports.html.suite import draw
from tests.support.suites import cell, suite

WIDTHS = (1280, 400)
HOSTILE = "<b onclick=alert(1)>\u202e\x00" + "k" * 5_000
Opener = Callable[..., Page]


@pytest.fixture
def opened(open_file: Opener, tmp_path: Path) -> Opener:
    """Return a function that opens the page of a suite."""

    def open_page(suite_record: Suite, width: int = 1280, **options: Any) -> Page:
        (tmp_path / "index.html").write_text(draw(suite_record), encoding="utf-8")
        return open_file(tmp_path / "index.html", width, **options)

    return open_page


@pytest.mark.parametrize("width", WIDTHS)
def test_the_number_of_bad_runs_is_visible_first(opened: Opener, width: int) -> None:
    page = opened(suite(), width)
    expect(page.get_by_role("heading", level=1)).to_have_text("✕ 8 of 20 runs need a look")
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport()
    expect(page.locator(".reason")).to_have_text(
        "4 valid, 2 caught, 2 known, 2 invalid, 2 missed, 2 unknown, 2 failed, 2 not checked, 2 not run"
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_no_part_is_wider_than_the_page(opened: Opener, width: int) -> None:
    faults = [
        "kill-broker",
        "kill-group-coordinator,pause-worker,partition,kill-worker",
        *(f"fault-{n}" for n in range(20)),
    ]
    cells = [cell(w, c, n) for w in ("shop", "orders") for c in ("librdkafka", "java") for n in faults]
    page = opened(suite(*cells), width)
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_hostile_values_run_no_script_and_do_not_widen_the_page(opened: Opener) -> None:
    hostile = cell(
        HOSTILE,
        HOSTILE,
        HOSTILE,
        CellState.INVALID,
        reason=HOSTILE,
        command=HOSTILE,
        more={HOSTILE: HOSTILE},
        first=HOSTILE,
        faults={HOSTILE: 1, f"2{HOSTILE}": 0},
        not_exercised={f"2{HOSTILE}": HOSTILE},
    )
    page = opened(suite(hostile, remarks=(HOSTILE,), file=HOSTILE), 400)
    assert page.locator("main b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 400


@pytest.mark.parametrize("width", WIDTHS)
def test_a_cell_of_the_grid_leads_to_its_run(opened: Opener, width: int) -> None:
    page = opened(suite(), width)
    page.locator(".grid-of-cells a.chip.invalid").first.click()
    run = page.locator("li:target")
    expect(run).to_be_in_viewport()
    expect(run).to_contain_text("4 inputs took effect")
    expect(run).to_contain_text("seed 7")
    expect(run).to_contain_text("bad in 2 of 30 suites")
    expect(run.get_by_role("link", name="report")).to_be_visible()


def test_the_faults_that_acted_and_the_first_example_are_visible(opened: Opener) -> None:
    bad = cell(
        state=CellState.INVALID,
        first="input purchases/1 offset 812 took effect twice",
        faults={"kill-broker": 3},
    )
    page = opened(suite(bad, cell("echo", faults={"partition": 0})))
    expect(page.get_by_text("Faults that acted: kill-broker 3; never acted: partition")).to_be_in_viewport()
    expect(page.locator("li.run-of-suite").first).to_contain_text("First: input purchases/1 offset 812")
    expect(page.locator("#new li")).to_contain_text("4 inputs took effect")


def test_the_filter_shows_only_matching_runs(opened: Opener) -> None:
    page = opened(suite())
    runs = page.locator("li.run-of-suite:visible")
    expect(runs).to_have_count(20)
    page.get_by_label("Filter").fill("java orders")
    expect(runs).to_have_count(2)
    expect(page.locator(".grid-of-cells a.chip:visible")).to_have_count(2)
    expect(page.locator(".grid-of-cells tbody tr:visible")).to_have_count(1)
    expect(page.locator("#filter-count")).to_have_text("2 shown")
    page.get_by_label("Filter").fill("")
    page.get_by_label("valid (4)", exact=False).first.uncheck()
    expect(runs).to_have_count(16)
    page.get_by_label("new only").check()
    expect(runs).to_have_count(2)


def test_the_command_that_repeats_a_run_is_copied(opened: Opener) -> None:
    page = opened(suite(cell()), permissions=("clipboard-read", "clipboard-write"))
    page.get_by_role("button", name="copy").click()
    expect(page.locator("#cell-1-copied")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == suite(cell()).cells[0].command


def test_the_page_can_be_read_without_scripts(opened: Opener) -> None:
    page = opened(suite(), java_script_enabled=False)
    expect(page.locator("li.run-of-suite").first).to_be_visible()
    expect(page.locator("#filter")).to_be_hidden()
    expect(page.get_by_role("button")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(opened: Opener, scheme: str) -> None:
    """WCAG AA: the contrast is 4.5 to 1, for each colour of a chip."""
    page = opened(suite(), color_scheme=scheme)
    colours = page.evaluate(
        """() => [...document.querySelectorAll('.grid-of-cells .chip')].map(chip => {
            const style = getComputedStyle(chip);
            return [style.color, style.backgroundColor];
        })"""
    )

    def luminance(colour: str) -> float:
        channels = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert len({background for _, background in colours}) == len(CellState)
    for pair in colours:
        low, high = sorted(map(luminance, pair))
        assert (high + 0.05) / (low + 0.05) >= 4.5, pair
