"""Check altered copies of a real run. Only a few alterations are here; tests/chaos has all."""

import pytest

from fencepost.api import Result
from tests.support.altered_store import assert_expected_findings, check_alterations, run_trace_commands

NAMES = (
    "remove_an_output",
    "flip_a_commit_marker",
    "move_an_offset_record_back",
    "drop_an_operation_of_a_journal",
    "remove_a_sentinel",
)
EMPTIED = ("batches",)


@pytest.fixture(scope="module")
def results(stored: Result, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    return check_alterations(stored, tmp_path_factory.mktemp("altered"), NAMES, EMPTIED)


@pytest.mark.parametrize("name", NAMES)
def test_exactly_the_altered_part_is_found(name: str, results: dict[str, Result]) -> None:
    assert_expected_findings(name, results[name])


@pytest.mark.parametrize("table", EMPTIED)
def test_a_run_with_an_emptied_table_proves_no_anomaly(table: str, results: dict[str, Result]) -> None:
    assert results[f"empty-{table}"].valid is None, results[f"empty-{table}"].explain()


def test_every_trace_command_in_a_verdict_shows_something(results: dict[str, Result]) -> None:
    named, unanswered = run_trace_commands(results)
    assert len(named) > len(NAMES) / 2 and not unanswered
