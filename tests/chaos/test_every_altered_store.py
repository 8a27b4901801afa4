"""Check copies of a real run, each altered in one way, for every alteration that has a name."""

from pathlib import Path

import pytest

from fencepost.api import Result
from tests.support.altered_store import (
    ALTERATIONS,
    EMPTIED,
    assert_expected_findings,
    check_alterations,
    run_correct_pipeline,
    run_trace_commands,
)


@pytest.fixture(scope="module")
def results(runs_folder: Path) -> dict[str, Result]:
    return check_alterations(
        run_correct_pipeline(runs_folder / "store"), runs_folder / "altered", list(ALTERATIONS), EMPTIED
    )


@pytest.mark.parametrize("name", sorted(ALTERATIONS))
def test_exactly_the_altered_part_is_found(name: str, results: dict[str, Result]) -> None:
    assert_expected_findings(name, results[name])


@pytest.mark.parametrize("table", EMPTIED)
def test_a_run_with_an_emptied_table_proves_no_anomaly(table: str, results: dict[str, Result]) -> None:
    assert results[f"empty-{table}"].valid is None, results[f"empty-{table}"].explain()


def test_every_trace_command_in_a_verdict_shows_something(results: dict[str, Result]) -> None:
    named, unanswered = run_trace_commands(results)
    assert len(named) > len(ALTERATIONS) / 2 and not unanswered
