"""Fencepost for Python: start a run, or judge stored ones, and get a verdict.

    result = fencepost.run(nemesis=["kill-broker"], time_limit=30, seed=7)
    result.assert_valid()
    assert "lost-input" not in result.anomalies

Importing this loads no other room of the house: the command runs as a process of its own, because
the names of those rooms (`workloads`, `reports`) may well be names of yours.
"""

from fencepost.api import FencepostFailed, Result, RunFunction, check, replay, run
from fencepost.api_types import CheckOptions, RunOptions, VerdictDocument
from fencepost.sharing.process import shared_judge
from fencepost.your_pipeline import Pipeline, Stage

__all__ = [
    "CheckOptions",
    "FencepostFailed",
    "Pipeline",
    "Result",
    "RunFunction",
    "RunOptions",
    "Stage",
    "VerdictDocument",
    "check",
    "replay",
    "run",
    "shared_judge",
]
