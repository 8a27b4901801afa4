"""A custom pipeline runs under faults and is checked by the broker logs alone."""

import os
import sys
from pathlib import Path

import pytest

import fencepost

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_offsets_outside_the_transaction_are_found_in_the_broker_logs_alone(
    runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    result = fencepost.run(
        pipeline=str(EXAMPLES / "billing" / "offsets-after.toml"),
        nemesis="kill-instance",
        time_limit=12,
        rate=60,
        seed=1,
        store=str(runs_folder / "store"),
    )
    anomalies = result.anomalies
    assert "offset-output-mismatch" in anomalies, result.explain()
    assert anomalies <= {"offset-output-mismatch", "reprocessed-input"}, result.explain()
    assert [fault["acted"] for fault in result.verdict["faults"]] == [True]
    assert result.verdict["coverage"]["committed"] > 0
    assert "keeps no journals" in result.verdict["not_checked"]["lost-commit"]
    assert result.folder.parent.name == "billing-offsets-after"
