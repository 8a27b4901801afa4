"""The checker is checked on a real run whose store is altered, in every way that there is a name for."""

from pathlib import Path

import pytest

import fencepost
from fencepost.api import Result
from tests.support.altered_store import ALTERATIONS, EMPTIED, check_found, judged


@pytest.fixture(scope="module")
def results(place: Path) -> dict[str, Result]:
    stored = fencepost.run(
        nemesis=["kill-worker", "pause-worker"],
        time_limit=26,
        seed=11,
        rate=12,  # seventy copies of it are altered, and judged together
        store=str(place / "store"),
        keep="logs",
    )
    return judged(stored, place, list(ALTERATIONS), EMPTIED)


@pytest.mark.parametrize("name", sorted(ALTERATIONS))
def test_exactly_what_was_altered_is_found(name: str, results: dict[str, Result]) -> None:
    check_found(name, results[name])


@pytest.mark.parametrize("table", EMPTIED)
def test_an_emptied_table_is_never_valid_and_accuses_nobody(table: str, results: dict[str, Result]) -> None:
    assert results[f"empty-{table}"].valid is None, results[f"empty-{table}"].explain()
