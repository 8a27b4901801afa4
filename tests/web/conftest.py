"""A real browser for the report: the machine's chromium, driven by Playwright, without a network."""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support.needs import browser_path, skip_or_fail

sys.path.append(str(Path(__file__).parents[1] / "unit" / "reports"))  # synthetic_store


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = browser_path()
    if path is None:
        skip_or_fail("browser", "there is no chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def contexts(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., BrowserContext]:
    """Return a function that returns the context with these options.

    One page of it stays open. Chromium then shows the next ones with the process of that page. To start a process takes
    longer than most tests.
    """
    blank = tmp_path_factory.mktemp("blank") / "blank.html"
    blank.write_text("<!doctype html><title>blank</title>")

    @cache
    def context(**options: Any) -> BrowserContext:
        made = browser.new_context(offline=True, reduced_motion="reduce", **options)
        made.new_page().goto(blank.as_uri())
        return made

    return context


@pytest.fixture
def open_file(contexts: Callable[..., BrowserContext]) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a page from the disk.

    At the end, the page must have requested no other file, and the console must have no messages.
    """
    messages: list[str] = []
    requests: list[str] = []
    pages = []
    files = set()

    def open_page(path: Path, width: int = 1280, **options: Any) -> Page:
        page = contexts(**options).new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("dialog", lambda dialog: messages.append(dialog.message))
        page.goto(path.as_uri())
        files.add(path.as_uri())
        return page

    yield open_page
    stored = [page.evaluate("Object.keys(localStorage)") for page in pages]
    for page in pages:
        page.close()
    assert not any(stored), "a page has stored something, which other pages of its context see"
    assert messages == []
    assert {url.partition("#")[0] for url in requests} - {"data:,"} == files
