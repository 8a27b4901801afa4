"""The lag agrees with the checks: a run in which inputs are left cannot be valid."""

from dataclasses import replace
from pathlib import Path

from cases import Case, store
from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from checkers.recovery.lag import measure_lag
from harness.record.table_reader import RunTables
from tests.support.histories import History
from tests.support.stored_tables import write_store


def nothing_is_left(h: History) -> None:
    h.feed(4)
    h.transact(0, 1)
    h.transact(2, 3)


def no_offset_is_committed(h: History) -> None:
    h.feed(2)


def the_last_inputs_are_not_processed(h: History) -> None:
    h.feed(4)
    h.transact(0, 1)


def the_last_offsets_are_aborted(h: History) -> None:
    h.feed(4)
    h.transact(0, 1)
    h.transact(2, 3, offsets_fate="abort")


def the_last_offsets_have_no_marker(h: History) -> None:
    h.feed(4)
    h.transact(0, 1)
    h.transact(2, 3, offsets_fate="open")


def the_last_offset_commit_is_an_earlier_one(h: History) -> None:
    h.feed(4)
    h.transact(0, 1, 2, 3)
    h.commit_offset(2)


def an_input_has_no_marker(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.append("a", "v", 9)


LEFT = (
    no_offset_is_committed,
    the_last_inputs_are_not_processed,
    the_last_offsets_are_aborted,
    the_last_offsets_have_no_marker,
    the_last_offset_commit_is_an_earlier_one,
    an_input_has_no_marker,
)


def test_a_run_has_a_finding_or_a_reason_if_and_only_if_inputs_are_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The runs say that all stages were drained, so no problem of a run itself explains the inputs."""
    cases = [Case(draw.__name__, draw, {}) for draw in (nothing_is_left, *LEFT)]
    left = {
        case.name
        for case in cases
        if measure_lag(RunTables(write_store(tmp_path / case.name, [(1, case.history)], log=True))).is_left
    }
    results = check_runs(spark, [replace(run, drained=True) for run in store(tmp_path / "store", cases)])
    not_valid = {
        case.name
        for run, case in enumerate(cases)
        if results[run].broken or any(not found.allowed for found in results[run].anomalies.values())
    }
    assert left == not_valid == {draw.__name__ for draw in LEFT}
