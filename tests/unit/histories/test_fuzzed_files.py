"""Random files: each file is read as rows, or as an error with its line. No other exception is raised."""

from typing import Any

import pytest
from hypothesis import given, settings

from checkers.histories.blocks import BYTE_ORDER_MARK
from tests.support.fuzzing import any_events, check_both_formats, check_file, files, histories

FEW = settings(max_examples=100, derandomize=True, deadline=None, database=None)

REGRESSIONS = {
    "a byte order mark that is cut, and nothing else": ("h.edn", BYTE_ORDER_MARK),
    "a byte order mark that is cut": ("h.jsonl", BYTE_ORDER_MARK + b"{}"),
}
"""Files that were once read wrongly."""


@pytest.mark.parametrize("case", REGRESSIONS)
def test_a_file_that_once_failed_is_read_correctly(case: str) -> None:
    check_file(*REGRESSIONS[case])


@FEW
@given(files())
def test_any_file_is_rows_or_an_error_with_its_line(file: tuple[str, bytes]) -> None:
    check_file(*file)


@FEW
@given(any_events())
def test_any_events_are_the_same_rows_in_both_forms(events: list[dict[str, Any]]) -> None:
    check_both_formats(events)


@settings(FEW, max_examples=30)
@given(histories())
def test_a_history_is_the_same_rows_in_both_forms(events: list[dict[str, Any]]) -> None:
    check_both_formats(events)
