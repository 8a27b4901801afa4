"""The place of a finding's diagram in a reproducer."""

from reports.reproducer.finding import Finding
from reports.run_tables import RunTables


def diagram(tables: RunTables, finding: Finding) -> str | None:
    """Return a diagram of the finding as SVG, for `diagram.svg`. None: there is no diagram yet."""
    return None
