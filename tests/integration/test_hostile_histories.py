"""Small hostile histories of each kind, checked in one call. `tests/chaos` has large ones."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.hostile import CASES, check, write, write_many

SIZE = 2_000


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[int, dict[Path, dict[str, Any]], dict[Path, bool]]:
    """The exit status, the verdicts by file, and for each of the many small histories whether it can be read."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, case in CASES.items():
        write(case, folder / f"{name}.jsonl", SIZE)
    (folder / "many").mkdir()
    many = write_many(folder / "many", 60)
    paths = [*(folder / f"{name}.jsonl" for name in CASES), *many]
    status, verdicts, output, _ = check(paths)
    assert "Traceback" not in output
    return status, dict(zip(paths, verdicts, strict=True)), many


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_hostile_history_has_the_expected_verdict(answers: Any, name: str) -> None:
    (verdict,) = (answer for path, answer in answers[1].items() if path.name == f"{name}.jsonl")
    counts = {anomaly: body["count"] for anomaly, body in verdict["anomalies"].items() if not body["allowed"]}
    assert (verdict["valid"], counts) == (CASES[name].valid, dict(CASES[name].counts))
    assert len(str(verdict)) < 50_000  # a finding does not contain the whole history


def test_a_damaged_history_is_reported_and_does_not_affect_others(answers: Any) -> None:
    status, verdicts, many = answers
    assert status == 2
    for path, readable in many.items():
        verdict = verdicts[path]
        assert verdict["valid"] == (True if readable else "unknown"), verdict
        assert ("error" in verdict) is not readable, verdict
        assert readable or "line " in verdict["error"], verdict
    assert sum(many.values()) == 54
