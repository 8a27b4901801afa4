"""Faults on clocks and disks, on real clusters (`make chaos`): each acts, and a correct pipeline is valid."""

import re
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost.api import Result

BILLING = Path(__file__).resolve().parents[2] / "examples" / "billing" / "pipeline.toml"
JUMPS = """
[[schedule]]
fault = "jump-broker-clock@controller"
start_s = 4
ahead_s = 3600

[[schedule]]
fault = "jump-broker-clock@txn-coordinator"
start_s = 26
ahead_s = -3600

[[schedule]]
fault = "drift-broker-clock"
start_s = 48

[[schedule]]
fault = "stop-broker-clock"
start_s = 66

[[schedule]]
fault = "slow-fsync@controller"
start_s = 84
"""
CLIENT_JUMPS = """
[[schedule]]
fault = "jump-{kind}-clock"
start_s = 5
ahead_s = 3600

[[schedule]]
fault = "jump-{kind}-clock"
start_s = 20
ahead_s = -3600
"""
DISKS = """
[[schedule]]
fault = "fill-disk"
start_s = 4

[[schedule]]
fault = "fail-fsync@follower"
start_s = 28

[[schedule]]
fault = "empty-disk@controller"
start_s = 54

[[schedule]]
fault = "truncate-segment"
start_s = 80

[[schedule]]
fault = "flip-bit@follower"
start_s = 104
"""
POWER_FAILURE = """
[[schedule]]
fault = "lose-unsynced-writes"
start_s = 8
"""


def run(folder: Path, schedule: str, time_limit: float, **options: Any) -> Result:
    """Start a run with these faults, and assert that all of them acted and were healed."""
    (folder / "faults.toml").write_text(schedule)
    result = fencepost.run(
        schedule=str(folder / "faults.toml"), seed=3, time_limit=time_limit, store=str(folder), **options
    )
    faults = result.verdict["faults"]
    assert len(faults) == schedule.count("[[schedule]]"), result.explain()
    assert all(fault["acted"] and fault["end_s"] for fault in faults), result.explain()
    return result


def test_a_correct_pipeline_is_valid_while_the_clocks_of_brokers_are_wrong(tmp_path: Path) -> None:
    result = run(tmp_path, JUMPS, 100)
    assert result.valid is True, result.explain()
    ahead, behind, drift, stopped, slow = (fault["evidence"] for fault in result.verdict["faults"])
    assert "s ahead of the clock" in ahead and "s behind the clock" in behind
    assert "wrote a record with a time" in drift and "s behind the clock" in stopped
    assert re.search(r"times, each 0\.5\d s slower", slow)
    assert {"stalled", "stuck-completion"} <= result.verdict["not_checked"].keys()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("worker", {}),
        ("worker", {"client": "java"}),
        ("instance", {"pipeline": str(BILLING)}),
    ],
)
def test_a_correct_pipeline_is_valid_while_the_clock_of_a_client_is_wrong(
    kind: str, options: dict[str, str], tmp_path: Path
) -> None:
    result = run(tmp_path, CLIENT_JUMPS.format(kind=kind), 36, **options)
    assert result.valid is True, result.explain()
    ahead, behind = (fault["evidence"] for fault in result.verdict["faults"])
    assert "s ahead of the clock" in ahead and "s behind the clock" in behind
    assert "stuck-completion" in result.verdict["not_checked"]


def test_a_correct_pipeline_is_valid_while_one_broker_loses_its_disk(tmp_path: Path) -> None:
    result = run(tmp_path, DISKS, 130)
    assert result.valid is True, result.explain()
    full, failed, emptied, truncated, flipped = (fault["evidence"] for fault in result.verdict["faults"])
    assert "calls had failed with ENOSPC" in full and "calls had failed with EIO" in failed
    assert "were deleted" in emptied and "bytes and has" in truncated
    assert "in the batch at offset" in flipped


def test_acknowledged_records_are_lost_in_a_power_failure_of_all_brokers(tmp_path: Path) -> None:
    result = run(tmp_path, POWER_FAILURE, 32)
    assert result.valid is False and "lost-write" in result.anomalies, result.explain()
    assert "had not been synced, and are lost" in result.verdict["faults"][0]["evidence"]
