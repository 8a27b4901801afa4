"""The checker is checked without journals: a real run is altered in every way that there is a name for, and judged as
if its pipeline had kept none.
"""

from pathlib import Path

import pytest

from fencepost.api import Result
from tests.support.altered_blind_store import BLIND, TABLES_OF_WORKERS
from tests.support.altered_store import EMPTIED, a_right_run, check_found, judged


@pytest.fixture(scope="module")
def results(place: Path) -> dict[str, Result]:
    return judged(a_right_run(place / "store"), place / "blind", list(BLIND), EMPTIED, BLIND, blind=True)


@pytest.mark.parametrize("name", sorted(BLIND))
def test_exactly_what_was_altered_is_found(name: str, results: dict[str, Result]) -> None:
    check_found(name, results[name], BLIND)


@pytest.mark.parametrize("table", EMPTIED)
def test_an_emptied_table_is_never_valid_and_accuses_nobody(table: str, results: dict[str, Result]) -> None:
    expected = True if table in TABLES_OF_WORKERS else None
    assert results[f"empty-{table}"].valid is expected, results[f"empty-{table}"].explain()
