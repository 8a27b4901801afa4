"""Many seeds, every defect under every fault, and runs that are killed (`make chaos`)."""

import random
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import fencepost
from fencepost.api import Result
from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from nemeses.registry import NEMESES
from tests.support.started_runs import start_run
from workloads.defects import DEFECTS


@pytest.mark.parametrize("seed", range(1, 21))
def test_a_correct_pipeline_is_valid_with_every_seed(seed: int, tmp_path: Path) -> None:
    result = fencepost.run(seed=seed, store=str(tmp_path))
    assert result.valid is True, result.explain()


@pytest.mark.parametrize("fault", sorted(NEMESES))
@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_defect_under_a_fault_shows_only_its_anomalies_or_none(
    name: str, fault: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Not every fault reveals every defect, so a run may be valid. But each run must have a verdict."""
    result = fencepost.run(defect=name, nemesis=[fault], seed=1, time_limit=30, store=str(tmp_path))
    assert result.exit_status in (0, 1, 3)
    assert _independent_findings(result) <= DEFECTS[name].anomalies, result.explain()
    record_property(
        "exit_status", result.exit_status
    )  # the JUnit file then shows which fault reveals which defect


@pytest.mark.parametrize("moment", range(10))
def test_a_run_killed_at_any_moment_leaves_nothing_behind(moment: int, tmp_path: Path) -> None:
    at_s = random.Random(moment).uniform(0.2, 60)
    options = (
        "--time-limit",
        "40",
        "--nemesis",
        "kill-worker,pause-worker",
        "--store",
        str(tmp_path / "store"),
    )
    with start_run(tmp_path / "log", *options) as run:
        try:
            wait_for(lambda: run.process.poll() is not None, "the moment of the kill", at_s, every_s=0.01)
        except WaitTimeout:
            assert run.process.poll() is None  # the moment has come
        run.signal(signal.SIGKILL)
        run.process.wait()
        run.await_no_leftovers()


def test_fifty_killed_workers_lose_nothing(tmp_path: Path) -> None:
    result = fencepost.run(nemesis=["kill-worker"], time_limit=360, seed=1, store=str(tmp_path))
    assert sum(fault["acted"] for fault in result.verdict["faults"]) >= 40
    assert result.valid is True, result.explain()


def test_two_concurrent_runs_are_both_valid(tmp_path: Path) -> None:
    def run(seed: int) -> Result:
        return fencepost.run(seed=seed, nemesis=["kill-broker"], time_limit=40, rate=60, store=str(tmp_path))

    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(run, (1, 2)):
            assert result.valid is True, result.explain()


def _independent_findings(result: Result) -> set[str]:
    """Return the anomalies that no other anomaly causes, and that are not allowed."""
    anomalies = result.verdict["anomalies"].items()
    return {anomaly for anomaly, body in anomalies if not body["allowed"] and not body.get("because")}
