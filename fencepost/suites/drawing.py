"""What people and machines read of a suite: its page, its JUnit file, and its summary, beside `suite.json`."""

import logging
from pathlib import Path

from harness.suite import Suite


def draw_pages(folder: Path, suite: Suite) -> None:
    """Write `index.html`, `junit.xml` and `summary.md`; what cannot be drawn changes no verdict."""
    from jinja2 import TemplateError

    from reports.html.suite import draw
    from reports.suites.junit import junit
    from reports.suites.summary import summary

    try:
        (folder / "junit.xml").write_text(junit(suite), encoding="utf-8")
        (folder / "summary.md").write_text(summary(suite), encoding="utf-8")
        (folder / "index.html").write_text(draw(suite), encoding="utf-8")
    except (OSError, TemplateError) as error:
        logging.getLogger(__name__).error("the pages of %s could not be written: %s", folder, error)
