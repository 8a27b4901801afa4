"""Large hostile histories, and long fuzzing. All checks end, in bounded time and memory."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from benchmarks.hostile import CASES, SIZE, check, write, write_many
from tests.support.fuzzing import any_events, check_both_formats, check_file, files

LIMIT_S, LIMIT_MB = 900, 6_000
LONG = settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_large_hostile_history_has_the_expected_verdict(name: str, tmp_path: Path) -> None:
    write(CASES[name], tmp_path / "h.jsonl", SIZE)
    _, (verdict,), output, cost = check([tmp_path / "h.jsonl"])
    anomalies: Any = verdict["anomalies"]
    counts = {anomaly: body["count"] for anomaly, body in anomalies.items() if not body["allowed"]}
    assert (verdict["valid"], counts) == (CASES[name].valid, dict(CASES[name].counts)), output
    assert cost.cpu_s < LIMIT_S and cost.peak_mb < LIMIT_MB, cost


def test_each_of_hundreds_of_histories_has_its_verdict(tmp_path: Path) -> None:
    many = write_many(tmp_path, 500)
    status, verdicts, output, cost = check(list(many))
    assert status == 2, output
    assert ["error" not in verdict for verdict in verdicts] == list(many.values())
    assert cost.cpu_s < LIMIT_S and cost.peak_mb < LIMIT_MB, cost


@LONG
@given(files())
def test_any_file_gives_rows_or_an_error_with_its_line(file: tuple[str, bytes]) -> None:
    check_file(*file)


@LONG
@given(any_events())
def test_any_events_give_the_same_rows_in_json_and_edn(events: list[dict[str, Any]]) -> None:
    check_both_formats(events)
