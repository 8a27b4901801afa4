"""The page of a comparison in a browser."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs
from playwright.sync_api import Page, expect

from harness.results.suite import CellState
from reports.compare.comparison import compare
from reports.compare.sides import read_suite
from reports.html.compare import draw
from tests.support.compared_runs import seeded_cell, write_suite


@pytest.fixture
def page_of_suites(tmp_path: Path) -> Path:
    long = "kill-group-coordinator,pause-worker,partition,kill-worker" + "k" * 300
    for name, state in (("a", CellState.VALID), ("b", CellState.INVALID)):
        wide = structs.replace(
            seeded_cell(1, nemesis=long, more={"k" * 300: "v" * 300}), slug="wide", run=None
        )
        cells = [seeded_cell(1, state), wide]
        write_suite(tmp_path / name, *cells, name=name)
    comparison = compare(*(read_suite(name, tmp_path / name) for name in ("a", "b")))
    (tmp_path / "page.html").write_text(draw(comparison), encoding="utf-8")
    return tmp_path / "page.html"


@pytest.mark.parametrize("width", [1280, 400])
def test_a_comparison_is_not_wider_than_the_page(
    open_file: Callable[..., Page], page_of_suites: Path, width: int
) -> None:
    page = open_file(page_of_suites, width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.get_by_role("link", name="Versions and settings").click()
    expect(page.locator("#differences")).to_be_in_viewport()


def test_on_a_narrow_screen_each_value_has_the_name_of_its_side(
    open_file: Callable[..., Page], page_of_suites: Path
) -> None:
    page = open_file(page_of_suites, 400)
    row = page.locator("#pair-1 tr", has_text="verdicts")
    labels = row.locator("td").evaluate_all(
        "cells => cells.map(c => getComputedStyle(c, '::before').content)"
    )
    assert labels == ['"A: "', '"B: "']
    expect(row).to_contain_text("1 invalid")
