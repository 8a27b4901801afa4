"""The place of a finding's diagram in a reproducer."""

from collections.abc import Callable

from reports.reproducer.finding import Finding
from reports.run_tables import RunTables


def diagram(tables: RunTables, finding: Finding, clean: Callable[[str], str]) -> str | None:
    """Return a diagram of the finding as SVG, for `diagram.svg`. None: there is no diagram yet.

    Args:
        tables: the run
        finding: the finding that README.md describes
        clean: replaces what must not become public; each text in the diagram must pass through it
    """
    return None
