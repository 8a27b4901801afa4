"""Choose the loader for a run."""

import math

from harness.record.table_reader import RunTables
from harness.record.timeline import by_journals, by_logs
from harness.record.timeline.model import Timeline


def load(t: RunTables, end_s: float = math.inf, *, with_commits: bool = True) -> Timeline:
    """Return the timeline of a run: from the broker logs if no stage keeps a journal, and else from the journals.

    `end_s` is the end of the run, in seconds since its start. Missing or damaged tables are noted. `with_commits` False
    leaves the table of the commits empty, which saves time.
    """
    if reads_logs(t):
        stages = by_logs.stages_without_journals(t.settings)
        return by_logs.load(t, stages, end_s, with_commits=with_commits)
    return by_journals.load(t, with_commits=with_commits)


def reads_logs(t: RunTables) -> bool:
    """Return whether `load` reads the broker logs."""
    return t.wall_ms_at_zero is not None and bool(by_logs.stages_without_journals(t.settings))
