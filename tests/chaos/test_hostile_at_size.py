"""Hostile histories at their size, and long fuzzing: all of it ends, in bounded time and memory."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from benchmarks.hostile import CASES, SIZE, check, write, write_many
from tests.support.fuzzing import any_events, files, holds_of_a_file, holds_of_both_forms

LIMIT_S, LIMIT_MB = 900, 6_000
LONG = settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@pytest.mark.parametrize("name", CASES)
def test_what_is_the_worst_of_its_kind_has_its_verdict(name: str, tmp_path: Path) -> None:
    write(CASES[name], tmp_path / "h.jsonl", SIZE)
    _, (verdict,), said, cost = check([tmp_path / "h.jsonl"])
    anomalies: Any = verdict["anomalies"]
    found = {anomaly: told["count"] for anomaly, told in anomalies.items() if not told["allowed"]}
    assert (verdict["valid"], found) == (CASES[name].valid, dict(CASES[name].counts)), said
    assert cost.cpu_s < LIMIT_S and cost.peak_mb < LIMIT_MB, cost


def test_of_hundreds_of_histories_each_has_its_answer(tmp_path: Path) -> None:
    many = write_many(tmp_path, 500)
    status, verdicts, said, cost = check(list(many))
    assert status == 2, said
    assert ["error" not in verdict for verdict in verdicts] == list(many.values())
    assert cost.cpu_s < LIMIT_S and cost.peak_mb < LIMIT_MB, cost


@LONG
@given(files())
def test_any_file_is_rows_or_an_error_with_its_line(file: tuple[str, bytes]) -> None:
    holds_of_a_file(*file)


@LONG
@given(any_events())
def test_any_events_are_the_same_rows_in_both_forms(events: list[dict[str, Any]]) -> None:
    holds_of_both_forms(events)
