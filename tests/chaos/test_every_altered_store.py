"""The checker is checked on a real run whose store is altered, in every way that there is a name for."""

from pathlib import Path

import pytest

from fencepost.api import Result
from tests.support.altered_store import ALTERATIONS, EMPTIED, a_right_run, check_found, judged, traced


@pytest.fixture(scope="module")
def results(place: Path) -> dict[str, Result]:
    return judged(a_right_run(place / "store"), place / "altered", list(ALTERATIONS), EMPTIED)


@pytest.mark.parametrize("name", sorted(ALTERATIONS))
def test_exactly_what_was_altered_is_found(name: str, results: dict[str, Result]) -> None:
    check_found(name, results[name])


@pytest.mark.parametrize("table", EMPTIED)
def test_an_emptied_table_is_never_valid_and_accuses_nobody(table: str, results: dict[str, Result]) -> None:
    assert results[f"empty-{table}"].valid is None, results[f"empty-{table}"].explain()


def test_every_trace_that_is_named_has_an_answer(results: dict[str, Result]) -> None:
    named, unanswered = traced(results)
    assert len(named) > len(ALTERATIONS) / 2 and not unanswered
