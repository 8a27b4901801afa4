"""A custom pipeline runs under faults and is checked by the broker logs alone."""

import os
import shutil
import sys
from pathlib import Path

import pytest

import fencepost

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_offsets_outside_the_transaction_are_found_in_the_broker_logs_alone(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    folder = shutil.copytree(EXAMPLES / "billing", tmp_path / "billing")
    description = folder / "offsets-after.toml"
    declared = (
        'transactional_id = "billing-{instance}"\n'  # without it, the fault finds the id in the requests
    )
    text = description.read_text().replace(declared, "").replace("{transactional_id}", "billing-{instance}")
    description.write_text(text)
    result = fencepost.run(
        pipeline=str(description),
        nemesis="kill-instance@ongoing",
        time_limit=12,
        rate=60,
        seed=1,
        store=str(runs_folder / "store"),
    )
    anomalies = result.anomalies
    assert "offset-output-mismatch" in anomalies, result.explain()
    assert anomalies <= {"offset-output-mismatch", "reprocessed-input"}, result.explain()
    (fault,) = result.verdict["faults"]
    assert fault["acted"] and fault["details"]["transactional_id"].startswith("billing-"), fault
    assert {"EndTxn", "JoinGroup"} <= result.verdict["requests"].keys()
    assert result.verdict["coverage"]["committed"] > 0
    assert "keeps no journals" in result.verdict["not_checked"]["lost-commit"]
    assert result.folder.parent.name == "billing-offsets-after"


def test_a_correct_program_goes_on_within_the_bound_after_an_instance_was_killed(
    runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    result = fencepost.run(
        pipeline=str(EXAMPLES / "billing" / "pipeline.toml"),
        nemesis="kill-instance",
        time_limit=15,
        rate=60,
        seed=1,
        store=str(runs_folder / "store"),
    )
    assert result.valid is True, result.explain()
    (fault,) = result.verdict["faults"]
    liveness = fault["liveness"]
    assert liveness["not_known"] is None, liveness
    assert liveness["first_commit_s"] is not None and liveness["first_commit_after_heal_s"] is not None
    assert 0 < liveness["longest_gap_s"] < liveness["bound_s"], liveness
    assert liveness["lso_still_s"] is not None and liveness["aborted"] is not None, liveness
    assert "stalled" in result.verdict["checked"] and "stalled" not in result.verdict["anomalies"]
    recovery = f"recovery: commits again after {liveness['first_commit_s']:,.1f} s"
    assert recovery in (result.folder / "junit.xml").read_text()
    assert "Recovery in numbers" in (result.folder / "report.html").read_text()
