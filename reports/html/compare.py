"""A comparison of two runs, or of two suites, as one self-contained HTML file."""

from pathlib import Path

from markupsafe import Markup

from harness.common import wording as words
from reports.compare.comparison import Comparison
from reports.compare.sides import SideKind
from reports.compare.text import ratio_text
from reports.html.template import policy, template

_HERE = Path(__file__).parent


def draw(comparison: Comparison) -> str:
    """Return the page. It has no script."""
    style = (_HERE / "report.css").read_text(encoding="utf-8")
    filters = {"show": words.printable, "ratio": ratio_text}
    return template("compare.html", filters).render(
        comparison=comparison,
        are_suites=comparison.a.kind is SideKind.SUITE,
        policy=policy([style], []),
        style=Markup(style),
    )
