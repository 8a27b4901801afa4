"""`--keep-evidence bad` removes files of good runs."""

from importlib import import_module
from pathlib import Path

import pytest
from msgspec import structs

from fencepost.cli import run_command_line
from fencepost.suites import run
from fencepost.suites.record import KEPT_FILES, SuiteRecord, remove_good_evidence
from harness.common.errors import ExitStatus
from harness.results.suite import Cell, CellState
from harness.results.verdict import Validity, Verdict
from tests.support.suites import cell, suite

EVIDENCE = ("journals/feeder.jsonl", "history/ops.parquet", "log/batches.parquet", "toxiproxy.log")


def files_of(record: SuiteRecord, cell: Cell) -> set[str]:
    run = record.folder / str(cell.run)
    return {str(path.relative_to(run)) for path in run.rglob("*") if not path.is_dir()}


def record_of(tmp_path: Path, *cells: Cell, unchecked: tuple[CellState, ...] = ()) -> SuiteRecord:
    """A suite whose runs have all files. A run whose state is in `unchecked` has no verdict."""
    for entry in cells:
        run = tmp_path / str(entry.run)
        for name in (*EVIDENCE, *KEPT_FILES - {"verdict.json"}):
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_text("x")
        if entry.state not in unchecked:
            verdict = Verdict(str(run), "n", 1, Validity.VALID.json, "all is well")
            (run / "verdict.json").write_text(verdict.line())
    return SuiteRecord(tmp_path, suite(*cells))


@pytest.mark.parametrize("state", [state for state in CellState if state is not CellState.NOT_RUN])
def test_only_good_runs_lose_their_evidence(tmp_path: Path, state: CellState) -> None:
    cell_ = cell(state=state)
    record = record_of(tmp_path, cell_)
    remove_good_evidence(record)
    all_files = {*EVIDENCE, *KEPT_FILES}
    assert files_of(record, cell_) == (
        set(KEPT_FILES) if state in (CellState.VALID, CellState.CAUGHT) else all_files
    )
    remove_good_evidence(record)  # again, as after a resume
    assert "verdict.json" in files_of(record, cell_)


def test_the_report_says_once_that_the_evidence_was_removed(tmp_path: Path) -> None:
    cell_ = cell()
    record = record_of(tmp_path, cell_)
    report = tmp_path / str(cell_.run) / "report.html"
    report.write_text("<body><main>\nall is well</main></body>")
    remove_good_evidence(record)
    remove_good_evidence(record)
    assert report.read_text().count("The evidence of this run was removed") == 1
    assert "all is well" in report.read_text()


def test_a_run_without_a_verdict_keeps_its_evidence(tmp_path: Path) -> None:
    cell_ = cell()
    record = record_of(tmp_path, cell_, unchecked=(CellState.VALID,))
    remove_good_evidence(record)
    assert set(EVIDENCE) <= files_of(record, cell_)


def test_the_run_of_another_cell_keeps_its_evidence(tmp_path: Path) -> None:
    cell_, other_cell = cell(), cell("orders")
    record = record_of(tmp_path, cell_, other_cell)
    record.suite = structs.replace(record.suite, cells=[structs.replace(cell_, run=other_cell.run)])
    remove_good_evidence(record)
    assert set(EVIDENCE) <= files_of(record, other_cell)


def test_a_link_is_removed_and_its_target_is_kept(tmp_path: Path) -> None:
    cell_ = cell()
    record = record_of(tmp_path, cell_)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("x")
    (tmp_path / str(cell_.run) / "data").symlink_to(outside)
    remove_good_evidence(record)
    assert files_of(record, cell_) == set(KEPT_FILES)
    assert (outside / "mine").is_file()


@pytest.mark.parametrize(
    ("flags", "count"), [((), 0), (("--keep-evidence", "all"), 0), (("--keep-evidence", "bad"), 1)]
)
def test_evidence_is_removed_only_with_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], count: int
) -> None:
    records_: list[SuiteRecord] = []
    monkeypatch.setattr(run.SuiteRun, "run", lambda self: suite())
    monkeypatch.setattr(
        import_module("fencepost.commands.suite"),
        "remove_good_evidence",
        lambda record: records_.append(record) or "",
    )
    (tmp_path / "night.toml").write_text('[matrix]\nworkload = "echo"\n')
    run_command_line(["suite", str(tmp_path / "night.toml"), "--store", str(tmp_path / "store"), *flags])
    assert len(records_) == count


def test_check_and_trace_say_that_the_evidence_of_a_run_was_removed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cell_ = cell()
    record = record_of(tmp_path, cell_)
    run = tmp_path / str(cell_.run)
    (run / "run.toml").write_text("[run]\nid = 1\nwall_ms_at_zero = 0\n")
    remove_good_evidence(record)
    before = (run / "verdict.json").read_bytes()
    for command in (["check"], ["check", "--update"], ["trace", "--fault", "1"]):
        assert run_command_line([*command, str(run)]) == ExitStatus.USAGE
        assert "its evidence was removed later" in "".join(capfd.readouterr())
    assert (run / "verdict.json").read_bytes() == before


def test_an_unknown_value_of_the_flag_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["suite", "x.toml", "--keep-evidence", "some"]) == ExitStatus.USAGE
    assert capfd.readouterr().err.count("\n") == 1
