"""`--keep-evidence bad`: what of a run is removed, and of which."""

from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.cli import run_command_line
from fencepost.suites import record as records
from fencepost.suites import run
from fencepost.suites.record import KEPT_FILES, SuiteRecord, remove_good_evidence
from harness.common.errors import ExitStatus
from harness.results.suite import Cell, CellState
from harness.results.verdict import Validity, Verdict
from tests.support.suites import cell, suite

EVIDENCE = ("journals/feeder.jsonl", "history/ops.parquet", "log/batches.parquet", "toxiproxy.log")


def left(record: SuiteRecord, one: Cell) -> set[str]:
    run = record.folder / str(one.run)
    return {str(path.relative_to(run)) for path in run.rglob("*") if not path.is_dir()}


def record_of(tmp_path: Path, *cells: Cell, unchecked: tuple[CellState, ...] = ()) -> SuiteRecord:
    """A suite whose runs have all files; no verdict where the state is one of `unchecked`."""
    for one in cells:
        run = tmp_path / str(one.run)
        for name in (*EVIDENCE, *KEPT_FILES - {"verdict.json"}):
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_text("x")
        if one.state not in unchecked:
            verdict = Verdict(str(run), "n", 1, Validity.VALID, "all is well")
            (run / "verdict.json").write_text(verdict.line())
    return SuiteRecord(tmp_path, suite(*cells))


@pytest.mark.parametrize("state", [state for state in CellState if state is not CellState.NOT_RUN])
def test_only_runs_that_are_good_lose_their_evidence(tmp_path: Path, state: CellState) -> None:
    one = cell(state=state)
    record = record_of(tmp_path, one)
    remove_good_evidence(record)
    all_of_it = {*EVIDENCE, *KEPT_FILES}
    assert left(record, one) == (
        set(KEPT_FILES) if state in (CellState.VALID, CellState.CAUGHT) else all_of_it
    )
    remove_good_evidence(record)  # again, as where the suite is resumed
    assert "verdict.json" in left(record, one)


def test_the_report_of_a_run_whose_evidence_is_gone_says_so_once(tmp_path: Path) -> None:
    one = cell()
    record = record_of(tmp_path, one)
    report = tmp_path / str(one.run) / "report.html"
    report.write_text("<body><main>\nall is well</main></body>")
    remove_good_evidence(record)
    remove_good_evidence(record)
    assert report.read_text().count("The evidence of this run was removed") == 1
    assert "all is well" in report.read_text()


def test_a_run_without_a_verdict_keeps_all(tmp_path: Path) -> None:
    one = cell()
    record = record_of(tmp_path, one, unchecked=(CellState.VALID,))
    remove_good_evidence(record)
    assert set(EVIDENCE) <= left(record, one)


def test_what_is_not_the_cells_own_run_is_left_alone(tmp_path: Path) -> None:
    one, other = cell(), cell("orders")
    record = record_of(tmp_path, one, other)
    record.suite = replace(record.suite, cells=[replace(one, run=other.run)])
    remove_good_evidence(record)
    assert set(EVIDENCE) <= left(record, other)


def test_a_link_goes_and_what_it_points_to_stays(tmp_path: Path) -> None:
    one = cell()
    record = record_of(tmp_path, one)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("x")
    (tmp_path / str(one.run) / "data").symlink_to(outside)
    remove_good_evidence(record)
    assert left(record, one) == set(KEPT_FILES)
    assert (outside / "mine").is_file()


@pytest.mark.parametrize(
    ("words", "asked"), [((), 0), (("--keep-evidence", "all"), 0), (("--keep-evidence", "bad"), 1)]
)
def test_nothing_is_removed_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], asked: int
) -> None:
    reduced: list[SuiteRecord] = []
    monkeypatch.setattr(run.SuiteRun, "run", lambda self: suite())
    monkeypatch.setattr(records, "remove_good_evidence", lambda record: reduced.append(record) or "")
    (tmp_path / "night.toml").write_text('[matrix]\nworkload = "echo"\n')
    run_command_line(["suite", str(tmp_path / "night.toml"), "--store", str(tmp_path / "store"), *words])
    assert len(reduced) == asked


def test_check_and_trace_say_that_the_evidence_of_a_run_was_removed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    one = cell()
    record = record_of(tmp_path, one)
    run = tmp_path / str(one.run)
    (run / "run.toml").write_text("[run]\nid = 1\nwall_ms_at_zero = 0\n")
    remove_good_evidence(record)
    before = (run / "verdict.json").read_bytes()
    for words in (["check"], ["check", "--update"], ["trace", "--fault", "1"]):
        assert run_command_line([*words, str(run)]) == ExitStatus.USAGE
        assert "its evidence was removed later" in "".join(capfd.readouterr())
    assert (run / "verdict.json").read_bytes() == before


def test_another_word_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["suite", "x.toml", "--keep-evidence", "some"]) == ExitStatus.USAGE
    assert capfd.readouterr().err.count("\n") == 1
