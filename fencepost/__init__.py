"""Fencepost for Python: start a run, or check stored runs, and get a verdict.

    result = fencepost.run(nemesis=["kill-broker"], time_limit=30, seed=7)
    result.assert_valid()
    assert "lost-input" not in result.anomalies

This package imports no other package of Fencepost. The command runs in a separate process, because your own code
may have packages with the same names (`workloads`, `reports`).
"""

from fencepost.api import Explored, FencepostFailed, Result, RunFunction, check, explore, replay, rule, run
from fencepost.api_types import CheckOptions, ExploreOptions, Pipeline, RunOptions, Stage
from fencepost.sharing import shared_spark
from fencepost.verdict_types import VerdictDocument

__all__ = [
    "CheckOptions",
    "ExploreOptions",
    "Explored",
    "FencepostFailed",
    "Pipeline",
    "Result",
    "RunFunction",
    "RunOptions",
    "Stage",
    "VerdictDocument",
    "check",
    "explore",
    "replay",
    "rule",
    "run",
    "shared_spark",
]
