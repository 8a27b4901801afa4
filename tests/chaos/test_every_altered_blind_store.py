"""Check copies of a real run without journals, each altered in one way, for every alteration that has a name."""

from pathlib import Path

import pytest

from fencepost.api import Result
from tests.support.altered_blind_store import BLIND, TABLES_OF_WORKERS
from tests.support.altered_store import EMPTIED, a_right_run, check_found, judged


@pytest.fixture(scope="module")
def results(runs_folder: Path) -> dict[str, Result]:
    return judged(
        a_right_run(runs_folder / "store"), runs_folder / "blind", list(BLIND), EMPTIED, BLIND, blind=True
    )


@pytest.mark.parametrize("name", sorted(BLIND))
def test_exactly_the_altered_part_is_found(name: str, results: dict[str, Result]) -> None:
    check_found(name, results[name], BLIND)


@pytest.mark.parametrize("table", EMPTIED)
def test_a_run_with_an_emptied_table_proves_no_anomaly(table: str, results: dict[str, Result]) -> None:
    expected = True if table in TABLES_OF_WORKERS else None
    assert results[f"empty-{table}"].valid is expected, results[f"empty-{table}"].explain()
