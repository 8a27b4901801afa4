"""Faults on brokers by their role, on real clusters (`make chaos`)."""

from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost.api import Result

FAULTS = {
    "kill-broker": "ended by SIGKILL",
    "restart-broker": "ended with status 143 after SIGTERM",
    "pause-broker": "stopped by SIGSTOP",
}
MOVING = ("leader", "txn-coordinator", "group-coordinator", "controller")
LEGAL_IN_KAFKA = {"unmarked-partition", "hanging-transaction"}
"""The anomalies that Kafka itself causes while partitions have no leader, and a correct pipeline cannot prevent."""


def run(folder: Path, name: str, **options: Any) -> Result:
    """Start a run, and assert that its fault acted and was healed."""
    result = fencepost.run(nemesis=[name], seed=3, store=str(folder), **{"time_limit": 25, **options})
    faults = result.verdict["faults"]
    assert faults and all(fault["acted"] and fault["end_s"] for fault in faults), result.explain()
    assert result.valid is not None, result.explain()
    return result


@pytest.mark.parametrize("role", MOVING)
@pytest.mark.parametrize("fault", FAULTS)
def test_another_broker_takes_over_the_role_and_a_correct_pipeline_is_valid(
    fault: str, role: str, tmp_path: Path
) -> None:
    result = run(tmp_path, f"{fault}@{role}")
    assert result.valid is True, result.explain()
    for report in result.verdict["faults"]:
        assert FAULTS[fault] in report["evidence"] and "took over its role" in report["evidence"]
        assert report["details"]["role"] == role and report["details"]["broker"] in {"1", "2", "3"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_follower_leaves_the_isr_and_a_correct_pipeline_is_valid(fault: str, tmp_path: Path) -> None:
    result = run(tmp_path, f"{fault}@follower")
    assert result.valid is True, result.explain()
    for report in result.verdict["faults"]:
        broker, partition = report["details"]["broker"], report["details"]["partition"]
        isr = report["evidence"].partition(f"the ISR of {partition} was ")[2].partition(" after ")[0]
        assert isr and broker not in isr.split(" and ")


@pytest.mark.parametrize("role", ["2", "minority"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_correct_pipeline_is_valid_without_one_broker(fault: str, role: str, tmp_path: Path) -> None:
    result = run(tmp_path, f"{fault}@{role}")
    assert result.valid is True, result.explain()
    for report in result.verdict["faults"]:
        assert report["evidence"].count(FAULTS[fault]) == 1
        assert role != "2" or report["details"]["broker"] == "2"


@pytest.mark.parametrize(("role", "count"), [("majority", 2), ("all", 3)])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_cluster_comes_back_after_a_majority_of_its_brokers_was_away(
    fault: str, role: str, count: int, tmp_path: Path
) -> None:
    result = run(tmp_path, f"{fault}@{role}", time_limit=35)
    assert set(result.anomalies) <= LEGAL_IN_KAFKA, result.explain()
    for report in result.verdict["faults"]:
        assert report["evidence"].count(FAULTS[fault]) == count
        assert "in every ISR again" in report["evidence"]


def test_two_of_five_brokers_are_a_minority(tmp_path: Path) -> None:
    result = run(tmp_path, "restart-broker@minority", brokers=5, time_limit=40)
    assert all(len(report["details"]["brokers"].split(", ")) == 2 for report in result.verdict["faults"])


def test_a_replay_has_the_same_brokers(tmp_path: Path) -> None:
    result = run(tmp_path, "restart-broker@minority")
    again = fencepost.replay(result.folder)
    assert [(report["fault"], report["details"]) for report in again.verdict["faults"]] == [
        (report["fault"], report["details"]) for report in result.verdict["faults"]
    ]
