"""Comparison with earlier suites: new failures, flake rates, and the order of cells."""

from pathlib import Path

from msgspec import structs

from fencepost.suites.record import compare, fingerprint, oldest_run_first, previous_suites
from harness.results.suite import Cell, CellState, Flake, Suite
from tests.support.suites import cell, suite


def night(n: int, *cells: Cell) -> Suite:
    return suite(*cells, started=f"2026-11-{n:02}T20:00:00+00:00")


def compared(cell_: Cell, *earlier: Cell) -> Cell:
    """Compare a cell with earlier ones, which are ordered newest first."""
    nights = [night(20 - n, old) for n, old in enumerate(earlier)]
    return compare(night(24, cell_), nights).cells[0]


def test_bad_after_good_is_new_and_bad_after_bad_is_not() -> None:
    bad = cell(state=CellState.INVALID)
    assert compared(bad, cell(), bad).new
    assert not compared(bad, bad, cell()).new
    assert compared(bad, cell(state=CellState.KNOWN)).new
    assert compared(bad).new
    assert not compared(cell(), bad).new
    assert compared(cell(), bad).before is CellState.INVALID


def test_invalid_is_new_after_a_suite_without_that_anomaly() -> None:
    lost = cell(state=CellState.INVALID, anomalies={"lost-input": 12})
    assert compared(lost, cell(state=CellState.UNKNOWN)).new
    assert compared(lost, cell(state=CellState.FAILED)).new
    assert compared(lost, cell(state=CellState.INVALID, anomalies={"duplicate": 1})).new
    assert not compared(lost, cell(state=CellState.INVALID, anomalies={"duplicate": 1, "lost-input": 1})).new
    assert not compared(lost, cell(state=CellState.MISSED, anomalies={"lost-input": 1})).new
    assert not compared(cell(state=CellState.UNKNOWN), lost).new
    assert not compared(cell(state=CellState.UNKNOWN), cell(state=CellState.FAILED)).new


def test_a_suite_that_did_not_run_the_cell_is_ignored() -> None:
    result = compared(
        cell(state=CellState.INVALID), cell(state=CellState.NOT_RUN), cell(state=CellState.INVALID)
    )
    assert (result.new, result.before, result.flake) == (False, CellState.INVALID, Flake(2, 2))


def test_the_flake_rate_counts_comparable_runs_and_the_current_one() -> None:
    different = cell(state=CellState.FAILED, fingerprint="ffff")
    result = compared(cell(), cell(state=CellState.UNKNOWN), different, cell(), cell(state=CellState.KNOWN))
    assert result.flake == Flake(4, 1)


def test_a_run_without_versions_is_compared_by_its_options() -> None:
    failed_early = cell(state=CellState.FAILED, versions={}, fingerprint="ffff")
    assert compared(cell(), failed_early).flake == Flake(2, 1)
    assert compared(failed_early, cell()).flake == Flake(2, 1)
    assert compared(
        cell(), structs.replace(failed_early, options={"workload": "shop", "time-limit": 5.0})
    ).flake == Flake(1, 0)


def test_the_flake_rate_covers_at_most_thirty_suites() -> None:
    assert compared(cell(), *[cell(state=CellState.INVALID)] * 40).flake == Flake(30, 29)


def test_a_fingerprint_ignores_options_that_do_not_change_the_test() -> None:
    options = {"workload": "shop", "seed": 1, "store": "a", "time-limit": 60.0}
    key = fingerprint(options, {"kafka": "4.3.1"})
    assert key == fingerprint({**options, "seed": 2, "store": "b"}, {"kafka": "4.3.1"})
    assert key != fingerprint({**options, "time-limit": 61.0}, {"kafka": "4.3.1"})
    assert key != fingerprint(options, {"kafka": "4.2.0"})


def test_cells_that_never_ran_come_before_the_oldest_runs() -> None:
    cells = [cell(nemesis=name) for name in ("lately", "long-ago", "never")]
    nights = [
        night(
            23,
            structs.replace(cells[0], started="2026-11-23T20:00:00+00:00"),
            structs.replace(cells[1], state=CellState.NOT_RUN),
        ),
        night(20, structs.replace(cells[1], started="2026-11-20T20:00:00+00:00")),
    ]
    assert [cell.nemesis for cell in oldest_run_first(cells, nights)] == ["never", "long-ago", "lately"]


def test_earlier_suites_of_a_name_are_sorted_newest_first(tmp_path: Path) -> None:
    for n in (3, 1, 2):
        (folder := tmp_path / "nightly" / f"2026110{n}T200000Z").mkdir(parents=True)
        night(n, cell()).save(folder)
    (damaged := tmp_path / "nightly" / "20261104T200000Z").mkdir()
    (damaged / "suite.json").write_text('{"schema": 1')
    (tmp_path / "nightly" / "latest").symlink_to("20261103T200000Z")
    suites = previous_suites(tmp_path, "nightly", "2026-11-03T20:00:00+00:00")
    assert [suite.started[:10] for suite in suites] == ["2026-11-02", "2026-11-01"]
    assert len(previous_suites(tmp_path, "nightly", "2027-01-01T20:00:00+00:00")) == 3
    assert previous_suites(tmp_path, "other", "2027-01-01T20:00:00+00:00") == []
