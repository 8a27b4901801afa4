"""A comparison on the console."""

from collections.abc import Iterator

from harness.common.wording import plural, printable
from reports.compare.comparison import Comparison
from reports.compare.sides import ComparedSide
from reports.compare.values import ComparedTable

MOST_CHARACTERS = 60
"""The longest value. `--json` and the page show more."""
MOST_ROWS = 40
"""The longest table. `--json` and the page have all rows."""
_HEADINGS = ("A", "B", "B / A")


def lines(comparison: Comparison) -> Iterator[str]:
    """Yield the lines."""
    for name, side in (("A", comparison.a), ("B", comparison.b)):
        yield f"{name}  {_describe(side)}"
    if comparison.totals:
        yield from _table(comparison.totals)
    for pair in comparison.pairs:
        if pair.name:
            yield ""
            yield f"== {printable(pair.name, 200)}"
        for table in pair.tables:
            yield from _table(table)
    for table in comparison.differences:
        yield from _table(table)
    for note in comparison.notes:
        yield ""
        yield f"note: {note}"


def _describe(side: ComparedSide) -> str:
    title = f" ({printable(side.title, 200)})" if side.title else ""
    return f"{printable(side.path, 400)}{title}"


def _table(table: ComparedTable) -> Iterator[str]:
    yield ""
    if not table.rows:
        yield f"{table.title}: none"
        return
    rows = [(table.title, *_HEADINGS)]
    rows += [
        (
            row.name,
            printable(row.a, MOST_CHARACTERS),
            printable(row.b, MOST_CHARACTERS),
            ratio_text(row.ratio),
        )
        for row in table.rows[:MOST_ROWS]
    ]
    columns = list(zip(*rows, strict=True))
    has_ratio = any(columns[3][1:])
    widths = [max(map(len, column)) for column in columns[: 4 if has_ratio else 3]]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip()
    if len(table.rows) > MOST_ROWS:
        yield f"{plural(len(table.rows) - MOST_ROWS, 'more row')}: use --json or --out"


def ratio_text(ratio: float | None) -> str:
    """Return for example `x 0.77`. Empty: there is no ratio."""
    return "" if ratio is None else f"x {ratio:.2f}" if ratio < 100 else f"x {ratio:,.0f}"
