"""Hostile histories, small, of each kind in one call; `tests/chaos` has them at their size."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.hostile import CASES, check, write, write_many

SIZE = 2_000


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[int, dict[Path, dict[str, Any]], dict[Path, bool]]:
    """The status, the verdicts by file, and which of the many small ones can be read."""
    place = tmp_path_factory.mktemp("hostile")
    for name, case in CASES.items():
        write(case, place / f"{name}.jsonl", SIZE)
    (place / "many").mkdir()
    many = write_many(place / "many", 60)
    paths = [*(place / f"{name}.jsonl" for name in CASES), *many]
    status, verdicts, said, _ = check(paths)
    assert "Traceback" not in said
    return status, dict(zip(paths, verdicts, strict=True)), many


@pytest.mark.parametrize("name", CASES)
def test_what_is_the_worst_of_its_kind_has_its_verdict(answers: Any, name: str) -> None:
    (verdict,) = (one for path, one in answers[1].items() if path.name == f"{name}.jsonl")
    found = {anomaly: told["count"] for anomaly, told in verdict["anomalies"].items() if not told["allowed"]}
    assert (verdict["valid"], found) == (CASES[name].valid, dict(CASES[name].counts))
    assert len(str(verdict)) < 50_000  # a finding does not carry a history with it


def test_of_many_histories_those_that_are_damaged_are_told_and_stop_no_other(answers: Any) -> None:
    status, verdicts, many = answers
    assert status == 2
    for path, sound in many.items():
        told = verdicts[path]
        assert told["valid"] == (True if sound else "unknown"), told
        assert ("error" in told) is not sound, told
        assert sound or "line " in told["error"], told
    assert sum(many.values()) == 54
