"""Check copies of a real run without journals, each altered in one way, for every alteration that has a name."""

from pathlib import Path

import pytest

from fencepost.api import Result
from tests.support.altered_blind_store import BLIND_ALTERATIONS, JOURNAL_TABLES
from tests.support.altered_store import (
    EMPTIED,
    assert_expected_findings,
    check_alterations,
    run_correct_pipeline,
)


@pytest.fixture(scope="module")
def results(runs_folder: Path) -> dict[str, Result]:
    return check_alterations(
        run_correct_pipeline(runs_folder / "store"),
        runs_folder / "blind",
        list(BLIND_ALTERATIONS),
        EMPTIED,
        BLIND_ALTERATIONS,
        blind=True,
    )


@pytest.mark.parametrize("name", sorted(BLIND_ALTERATIONS))
def test_exactly_the_altered_part_is_found(name: str, results: dict[str, Result]) -> None:
    assert_expected_findings(name, results[name], BLIND_ALTERATIONS)


@pytest.mark.parametrize("table", EMPTIED)
def test_a_run_with_an_emptied_table_proves_no_anomaly(table: str, results: dict[str, Result]) -> None:
    expected = True if table in JOURNAL_TABLES else None
    assert results[f"empty-{table}"].valid is expected, results[f"empty-{table}"].explain()
