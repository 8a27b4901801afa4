"""What people and machines read of a suite: its page, its JUnit file, and its summary, beside `suite.json`."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fencepost.suites.past import compared
from harness.suite import Suite

EVERY_S = 2.0
"""A page of a thousand runs takes a quarter of a second."""


def draw_pages(folder: Path, suite: Suite) -> None:
    """Write `index.html`, `junit.xml`, `summary.md` and `news.md`; what cannot be drawn changes no verdict."""
    from reports.suites.junit import junit
    from reports.suites.news import news
    from reports.suites.summary import summary

    try:
        (folder / "junit.xml").write_text(junit(suite), encoding="utf-8")
        (folder / "summary.md").write_text(summary(suite), encoding="utf-8")
        (folder / "news.md").write_text(news(suite), encoding="utf-8")
    except OSError as error:
        _complain(folder, error)
    _draw_index(folder, suite)


class Index:
    """The page of a suite that goes on: drawn after each run that begins or ends, and no more often than it should."""

    def __init__(
        self, folder: Path, past: Sequence[Suite], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`past`: earlier suites of this name, newest first."""
        self._folder, self._past, self._clock = folder, past, clock
        self._drawn: Suite | None = None
        self._at: float | None = None

    def keep_up(self, suite: Suite) -> None:
        """Draw it, if there is something new and the last time is long enough ago."""
        now = self._clock()
        if suite is self._drawn or (self._at is not None and now - self._at < EVERY_S):
            return
        self._drawn = suite
        _draw_index(self._folder, compared(suite, self._past))
        self._at = self._clock()


def _draw_index(folder: Path, suite: Suite) -> None:
    from jinja2 import TemplateError

    from reports.html.suite import draw

    part = folder / "index.part"
    try:
        part.write_text(draw(suite), encoding="utf-8")
        part.replace(folder / "index.html")  # whole: somebody may be reading it
    except (OSError, TemplateError) as error:
        _complain(folder, error)


def _complain(folder: Path, error: Exception) -> None:
    logging.getLogger(__name__).error("the pages of %s could not be written: %s", folder, error)
