"""The lag agrees with the checks: a run in which inputs are left cannot be valid."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from one_job import WantedRun, want

from checkers.recovery.lag import measure_lag
from harness.record.table_reader import RunTables
from harness.results.verdict import CheckResult
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


def drawn(draw: Callable[[History], None]) -> History:
    h = History()
    draw(h)
    return h


RUNS = {
    draw.__name__: want(
        partial(drawn, draw), drained=True
    )  # no problem of the run itself explains the inputs
    for draw in (nothing_is_left, *LEFT)
}


def test_a_run_has_a_finding_or_a_reason_if_and_only_if_inputs_are_left(
    result_of: Mapping[WantedRun, CheckResult], tmp_path: Path
) -> None:
    left = {
        name
        for name, run in RUNS.items()
        if measure_lag(RunTables(write_store(tmp_path / name, [(1, run.draw())], log=True))).is_left
    }
    not_valid = {
        name
        for name, run in RUNS.items()
        if result_of[run].broken or any(not found.allowed for found in result_of[run].anomalies.values())
    }
    assert left == not_valid == {draw.__name__ for draw in LEFT}
