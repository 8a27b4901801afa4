"""What earlier suites say of a cell: what is new, how often it was bad, and what ran least lately."""

from dataclasses import replace
from pathlib import Path

from fencepost.suites.previous import compare, fingerprint, oldest_run_first, previous_suites
from harness.results.suite import Cell, CellState, Flake, Suite
from tests.support.suites import cell, suite


def night(n: int, *cells: Cell) -> Suite:
    return suite(*cells, started=f"2026-11-{n:02}T20:00:00+00:00")


def compared(now: Cell, *before: Cell) -> Cell:
    """`before`: newest first."""
    nights = [night(20 - n, one) for n, one in enumerate(before)]
    return compare(night(24, now), nights).cells[0]


def test_bad_after_good_is_new_and_bad_after_bad_is_not() -> None:
    bad = cell(state=CellState.INVALID)
    assert compared(bad, cell(), bad).new
    assert not compared(bad, bad, cell()).new
    assert compared(bad, cell(state=CellState.KNOWN)).new
    assert compared(bad).new
    assert not compared(cell(), bad).new
    assert compared(cell(), bad).before is CellState.INVALID


def test_what_is_wrong_by_evidence_is_new_after_a_night_that_had_none() -> None:
    lost = cell(state=CellState.INVALID, anomalies={"lost-input": 12})
    assert compared(lost, cell(state=CellState.UNKNOWN)).new
    assert compared(lost, cell(state=CellState.FAILED)).new
    assert compared(lost, cell(state=CellState.INVALID, anomalies={"duplicate": 1})).new
    assert not compared(lost, cell(state=CellState.INVALID, anomalies={"duplicate": 1, "lost-input": 1})).new
    assert not compared(lost, cell(state=CellState.MISSED, anomalies={"lost-input": 1})).new
    assert not compared(cell(state=CellState.UNKNOWN), lost).new
    assert not compared(cell(state=CellState.UNKNOWN), cell(state=CellState.FAILED)).new


def test_a_night_in_which_it_did_not_run_says_nothing() -> None:
    told = compared(
        cell(state=CellState.INVALID), cell(state=CellState.NOT_RUN), cell(state=CellState.INVALID)
    )
    assert (told.new, told.before, told.flake) == (False, CellState.INVALID, Flake(2, 2))


def test_a_rate_counts_what_compared_the_same_and_this_night_with_it() -> None:
    other = cell(state=CellState.FAILED, fingerprint="ffff")
    told = compared(cell(), cell(state=CellState.UNKNOWN), other, cell(), cell(state=CellState.KNOWN))
    assert told.flake == Flake(4, 1)


def test_a_night_that_failed_before_its_versions_were_known_counts_by_its_options() -> None:
    early = cell(state=CellState.FAILED, versions={}, fingerprint="ffff")
    assert compared(cell(), early).flake == Flake(2, 1)
    assert compared(early, cell()).flake == Flake(2, 1)
    assert compared(cell(), replace(early, options={"workload": "shop", "time-limit": 5.0})).flake == Flake(
        1, 0
    )


def test_a_rate_is_of_thirty_nights_at_most() -> None:
    assert compared(cell(), *[cell(state=CellState.INVALID)] * 40).flake == Flake(30, 29)


def test_a_fingerprint_is_of_what_a_run_is_about() -> None:
    options = {"workload": "shop", "seed": 1, "store": "a", "time-limit": 60.0}
    one = fingerprint(options, {"kafka": "4.3.1"})
    assert one == fingerprint({**options, "seed": 2, "store": "b"}, {"kafka": "4.3.1"})
    assert one != fingerprint({**options, "time-limit": 61.0}, {"kafka": "4.3.1"})
    assert one != fingerprint(options, {"kafka": "4.2.0"})


def test_what_never_ran_goes_before_what_ran_longest_ago() -> None:
    cells = [cell(nemesis=name) for name in ("lately", "long-ago", "never")]
    nights = [
        night(
            23,
            replace(cells[0], started="2026-11-23T20:00:00+00:00"),
            replace(cells[1], state=CellState.NOT_RUN),
        ),
        night(20, replace(cells[1], started="2026-11-20T20:00:00+00:00")),
    ]
    assert [one.nemesis for one in oldest_run_first(cells, nights)] == ["never", "long-ago", "lately"]


def test_the_suites_of_a_name_in_a_store_come_newest_first(tmp_path: Path) -> None:
    for n in (3, 1, 2):
        (folder := tmp_path / "nightly" / f"2026110{n}T200000Z").mkdir(parents=True)
        night(n, cell()).save(folder)
    (damaged := tmp_path / "nightly" / "20261104T200000Z").mkdir()
    (damaged / "suite.json").write_text('{"schema": 1')
    (tmp_path / "nightly" / "latest").symlink_to("20261103T200000Z")
    found = previous_suites(tmp_path, "nightly", "2026-11-03T20:00:00+00:00")
    assert [one.started[:10] for one in found] == ["2026-11-02", "2026-11-01"]
    assert len(previous_suites(tmp_path, "nightly", "2027-01-01T20:00:00+00:00")) == 3
    assert previous_suites(tmp_path, "other", "2027-01-01T20:00:00+00:00") == []
