"""Custom pipelines under faults: correct programs are never invalid, and wrong programs are caught."""

from pathlib import Path

import pytest

import fencepost

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SEEDS = range(1, 6)
ANOMALIES_OF_WRONG_PROGRAMS = {
    "billing/offsets-after.toml": {"offset-output-mismatch", "reprocessed-input", "group-offset-regression"},
    "billing/auto-commit.toml": {"lost-input", "reprocessed-input"},
}


pytestmark = pytest.mark.usefixtures("python_of_examples")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "nemesis", [None, ["kill-instance", "pause-instance@offsets-added"]], ids=["drawn", "instances"]
)
def test_a_correct_program_is_never_invalid(nemesis: list[str] | None, seed: int, tmp_path: Path) -> None:
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
@pytest.mark.parametrize("example", ANOMALIES_OF_WRONG_PROGRAMS)
def test_a_wrong_program_is_caught(example: str, seed: int, tmp_path: Path) -> None:
    result = fencepost.run(
        pipeline=str(EXAMPLES / example),
        nemesis="kill-instance",
        time_limit=30,
        seed=seed,
        store=str(tmp_path),
    )
    assert result.valid is False, result.explain()
    anomalies = result.anomalies
    assert anomalies <= ANOMALIES_OF_WRONG_PROGRAMS[example], result.explain()
