"""The liveness of a fault in verdict.json."""

from pathlib import Path

import pytest

from harness.common.documents import decode, encode
from harness.results.recovery import Liveness
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import FaultReport

MEASURED = Liveness(
    first_commit_s=1.2,
    first_commit_after_heal_s=0.1,
    longest_gap_s=3.4,
    worst_partition="invoices/2",
    worst_partition_gap_s=4.0,
    rate_back_s=5,
    latency_back_s=6.0,
    lag_back_s=0.0,
    aborted=3,
    rebalances=0,
    bound_s=40.0,
)


def report(**changes: object) -> FaultReport:
    body = encode(FaultReport("kill-broker", "broker 2", 1.0, 9.0, True, "proof", "broker 2 was killed"))
    return decode(body | changes, FaultReport)


def test_a_liveness_survives_the_round_trip_through_json() -> None:
    assert report(liveness=encode(MEASURED)).liveness == MEASURED
    assert encode(report(liveness=encode(MEASURED)))["liveness"] == encode(MEASURED)


def test_a_fault_report_without_liveness_has_no_such_key() -> None:
    assert report().liveness is None
    assert report(liveness=None).liveness is None
    assert "liveness" not in encode(report())


@pytest.mark.parametrize(
    "damage",
    [
        {"longest_gap_s": "3"},
        {"longest_gap_s": -1.0},
        {"longest_gap_s": float("nan")},
        {"longest_gap_s": True},
        {"aborted": 1.5},
        {"worst_partition": 2},
        {"not_known": ["why"]},
    ],
)
def test_a_damaged_liveness_is_refused(damage: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^liveness\.\w+: expected a"):
        report(liveness=encode(MEASURED) | damage)
    with pytest.raises(ValueError, match=r"^liveness: expected an object or null, not a list$"):
        report(liveness=[1])


def test_normal_again_needs_rate_latency_and_lag() -> None:
    assert MEASURED.normal_after_s == 6.0
    assert Liveness(rate_back_s=1.0, latency_back_s=2.0).normal_after_s is None
    assert Liveness(rate_back_s=0.0, latency_back_s=0.0, lag_back_s=0.0).normal_after_s == 0.0


def test_a_gap_is_a_stall_only_beyond_a_known_bound() -> None:
    assert Liveness(longest_gap_s=40.1, bound_s=40.0).stalled
    assert not Liveness(longest_gap_s=40.0, bound_s=40.0).stalled
    assert not Liveness(longest_gap_s=1e6).stalled


def test_the_faults_of_the_run_metadata_have_no_liveness(tmp_path: Path) -> None:
    RunMetadata(faults=[report()]).save(tmp_path / "metadata.json")
    assert "liveness" not in (tmp_path / "metadata.json").read_text()
    assert RunMetadata.load(tmp_path / "metadata.json").faults == [report()]
