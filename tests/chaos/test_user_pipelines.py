"""Programs of a user's under faults: the right ones are never invalid, the wrong ones are caught."""

import os
import sys
from pathlib import Path

import pytest

import fencepost

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SEEDS = range(1, 6)
WRONG = {
    "billing/offsets-after.toml": {"offset-output-mismatch", "reprocessed-input", "group-offset-regression"},
    "billing/auto-commit.toml": {"lost-input", "reprocessed-input"},
}


@pytest.fixture(autouse=True)
def _python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples' `python3` is the one that runs the tests."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "nemesis", [None, ["kill-instance", "pause-instance@offsets-added"]], ids=["drawn", "instances"]
)
def test_a_right_program_is_never_invalid(nemesis: list[str] | None, seed: int, tmp_path: Path) -> None:
    result = fencepost.run(
        pipeline=str(EXAMPLES / "billing" / "pipeline.toml"),
        nemesis=nemesis,
        time_limit=50 if nemesis else 30,
        seed=seed,
        store=str(tmp_path),
    )
    assert result.valid is not False, result.explain()
    reasons = result.reasons
    assert reasons <= {"fault-did-not-act", "goal-not-met"}, result.explain()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("example", WRONG)
def test_a_wrong_program_is_caught(example: str, seed: int, tmp_path: Path) -> None:
    result = fencepost.run(
        pipeline=str(EXAMPLES / example),
        nemesis="kill-instance",
        time_limit=30,
        seed=seed,
        store=str(tmp_path),
    )
    assert result.valid is False, result.explain()
    found = result.anomalies
    assert found <= WRONG[example], result.explain()
