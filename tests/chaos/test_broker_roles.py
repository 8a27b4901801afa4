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


def run(folder: Path, *names: str, time_limit: float, **options: Any) -> Result:
    """Start a run, and assert that all its faults acted and were healed."""
    result = fencepost.run(nemesis=list(names), seed=3, time_limit=time_limit, store=str(folder), **options)
    faults = result.verdict["faults"]
    assert len(faults) >= len(names), result.explain()
    assert all(fault["acted"] and fault["end_s"] for fault in faults), result.explain()
    assert result.valid is not None, result.explain()
    return result


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_finds_the_broker_of_each_role_and_a_correct_pipeline_is_valid(
    fault: str, tmp_path: Path
) -> None:
    roles = (*MOVING, "follower", "2", "minority")
    result = run(tmp_path, *(f"{fault}@{role}" for role in roles), time_limit=150)
    assert result.valid is True, result.explain()
    by_role = {report["details"]["role"]: report for report in result.verdict["faults"]}
    assert by_role.keys() == {*MOVING, "follower", "broker", "minority"}
    assert all(FAULTS[fault] in report["evidence"] for report in by_role.values())
    assert all("took over its role" in by_role[role]["evidence"] for role in MOVING)
    assert by_role["broker"]["details"]["broker"] == "2"
    follower = by_role["follower"]
    isr = follower["evidence"].partition(f"the ISR of {follower['details']['partition']} was ")[2]
    assert isr and follower["details"]["broker"] not in isr.partition(" after ")[0].split(" and ")


@pytest.mark.parametrize("fault", FAULTS)
def test_the_cluster_comes_back_after_a_majority_of_its_brokers_was_away(fault: str, tmp_path: Path) -> None:
    result = run(tmp_path, f"{fault}@majority", f"{fault}@all", time_limit=50)
    # Kafka itself can lose a marker while partitions have no leader (KAFKA-20734).
    assert result.valid is True or "unmarked-partition" in result.anomalies, result.explain()
    for report in result.verdict["faults"]:
        count = {"majority": 2, "all": 3}[report["details"]["role"]]
        assert report["evidence"].count(FAULTS[fault]) == count
        assert "in every ISR again" in report["evidence"]


def test_two_of_five_brokers_are_a_minority_also_in_a_replay(tmp_path: Path) -> None:
    result = run(tmp_path, "restart-broker@minority", brokers=5, time_limit=30)
    details = [report["details"] for report in result.verdict["faults"]]
    assert all(len(detail["brokers"].split(", ")) == 2 for detail in details)
    again = fencepost.replay(result.folder)
    assert [report["details"] for report in again.verdict["faults"]] == details
