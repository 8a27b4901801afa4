"""What people read of a verdict: the report and the JUnit file, beside `verdict.json`."""

import logging
from pathlib import Path

from harness.verdict import Verdict


def draw_report(folder: Path, verdict: Verdict, duration_s: float) -> None:
    """Write `report.html` and `junit.xml`; what cannot be drawn never changes a verdict."""
    from jinja2 import TemplateError

    from reports.html.page import draw as draw_html
    from reports.junit import junit

    try:
        (folder / "junit.xml").write_text(junit([(verdict, duration_s)]), encoding="utf-8")
        (folder / "report.html").write_text(draw_html(folder, verdict), encoding="utf-8")
    except (OSError, TemplateError) as error:
        logging.getLogger(__name__).error("the report of %s could not be written: %s", folder, error)
