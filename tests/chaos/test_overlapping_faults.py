"""Faults that the user wrote, faults that overlap, and faults drawn by weight, on real clusters."""

import json
from pathlib import Path

import pytest

import fencepost
from fencepost.api import Result

SCHEDULE = """
[[schedule]]
fault = "kill-broker@controller"
start_s = 4

[[schedule]]
fault = "kill-worker"
start_s = 6
target = "worker:shop/shop-2"
step = "after-send"

[[schedule]]
fault = "rule"
start_s = 5
hold_s = 10
api = "EndTxn"
action = "close"
when = "after"

[[schedule]]
fault = "partition"
start_s = 26
target = "client:w0-1"
"""


def windows(result: Result, fault: str) -> list[tuple[float, float]]:
    return [
        (report["start_s"], report["end_s"] or 0.0) for report in result.faults if report["fault"] == fault
    ]


def test_a_run_has_the_faults_of_its_schedule_at_their_times(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(SCHEDULE)
    result = fencepost.run(schedule=file, time_limit=45, seed=5, store=str(tmp_path))
    result.assert_valid()
    planned_s = {"kill-broker": 4, "rule": 5, "kill-worker": 6, "partition": 26}
    assert {report["fault"] for report in result.faults} == planned_s.keys()
    phases = json.loads((result.folder / "metadata.json").read_text())["phases"]
    begun_s = next(phase["start_s"] for phase in phases if phase["name"] == "faults")
    for report in result.faults:  # a fault may be late: a worker must first reach its step
        assert report["start_s"] - begun_s > planned_s[report["fault"]] - 0.5, report
    ((broker_start_s, broker_end_s),) = windows(result, "kill-broker")
    ((worker_start_s, _),) = windows(result, "kill-worker")
    assert broker_start_s < worker_start_s < broker_end_s

    again = fencepost.replay(result.folder)
    again.assert_valid()
    assert [report["fault"] for report in again.faults] == [report["fault"] for report in result.faults]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("nemesis", ["partition+kill-worker", "kill-broker+pause-worker"])
def test_a_correct_pipeline_is_valid_under_faults_that_overlap(
    nemesis: str, seed: int, tmp_path: Path
) -> None:
    result = fencepost.run(nemesis=nemesis, time_limit=50, seed=seed, store=str(tmp_path))
    assert result.valid is not False, result.explain()
    assert result.reasons <= {"fault-did-not-act", "goal-not-met"}, result.explain()
    first, second = (windows(result, name) for name in nemesis.split("+"))
    assert any(a[0] < b[1] and b[0] < a[1] for a in first for b in second), result.faults


def test_two_faults_on_brokers_at_a_time_switch_off_the_checks_that_need_a_leader(tmp_path: Path) -> None:
    result = fencepost.run(
        nemesis="kill-broker+pause-broker", brokers=5, rate=30, time_limit=45, seed=2, store=str(tmp_path)
    )
    not_checked = result.verdict["not_checked"]
    assert {"stalled", "stuck-completion"} <= not_checked.keys(), not_checked
    assert result.anomalies <= {"unmarked-partition", "hanging-transaction"}, result.explain()


def test_a_correct_pipeline_is_valid_under_faults_drawn_by_weight(tmp_path: Path) -> None:
    result = fencepost.run(nemesis="kill-broker=1,kill-worker=4", time_limit=60, seed=4, store=str(tmp_path))
    result.assert_valid()
    assert {report["fault"] for report in result.faults} == {"kill-broker", "kill-worker"}
