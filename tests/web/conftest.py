"""A real browser for the report: the machine's chromium, driven by Playwright, without a network."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.needs import browser_path, lacking

sys.path.append(str(Path(__file__).parents[1] / "unit" / "reports"))  # synthetic_store


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = browser_path()
    if path is None:
        lacking("browser", "there is no chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
