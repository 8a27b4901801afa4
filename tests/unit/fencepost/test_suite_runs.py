"""The runs of a suite, with real processes that fake the cells: in parallel, finished, failed, interrupted."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fencepost.commands.options import settle
from fencepost.suites import plan, run
from fencepost.suites import record as records
from fencepost.suites.plan import SuitePlan, SuiteRequest
from fencepost.suites.record import SuiteRecord
from fencepost.suites.run import SuiteRun, SuiteSettings, estimate, preview
from fencepost.terminal_progress import SuiteLines
from harness.common.errors import ExitStatus, UsageError
from harness.results.suite import Cell, CellState, Suite
from harness.results.verdict import Validity, Verdict
from harness.runner.interrupt import Interrupt, InterruptPhase

pytestmark = pytest.mark.processes

FAKE_CELL = """
import json, os, pathlib, sys, time
request = json.load(sys.stdin)
options = request["options"]
run = pathlib.Path(options["store"], options["name"], "20261124T200000Z")
(run / "journals").mkdir(parents=True)
from harness.results.run_metadata import RunMetadata
RunMetadata(versions={"kafka": "4.3.1"}).save(run / "metadata.json")
part = {"echo": "ends", "orders": "fails", "txn": "dies", "cdc": "hangs"}[options["workload"]]
result = {"status": 0, "error": ""}
if part == "fails":
    result = {"status": 4, "error": "the disk is full"}
if part == "dies":
    os.kill(os.getpid(), 9)
if part == "hangs":
    sys.stdin.close()
    os.read(os.pipe()[0], 1)
print("finished", flush=True)
with open(request["result_file"], "w") as file:
    json.dump(result, file)
"""
SETTINGS = SuiteSettings(2, None, "local[1]", {}, program=[sys.executable, "-c", FAKE_CELL])


def record_of(tmp_path: Path, *workloads: str) -> tuple[SuiteRecord, SuitePlan]:
    file = tmp_path / "night.toml"
    file.write_text(f"[suite]\nseed = 1\n[matrix]\nworkload = {json.dumps(workloads)}\n")
    suite_plan = plan.load(file, SuiteRequest(settle))
    return records.create(tmp_path / "store", suite_plan.suite), suite_plan


def suite_run(record: SuiteRecord, suite_plan: SuitePlan, **settings: Any) -> SuiteRun:
    return SuiteRun(record, suite_plan, replace(SETTINGS, **settings), SuiteLines())


def run_all(
    record: SuiteRecord, suite_plan: SuitePlan, interrupt: Interrupt | None = None, **settings: Any
) -> dict[str, Cell]:
    suite_run(record, suite_plan, **settings).run_cells(interrupt or Interrupt())
    assert Suite.load(record.folder).cells == list(record.suite.cells)
    return {cell.workload: cell for cell in record.suite.cells}


def test_each_cell_has_the_outcome_of_its_process(tmp_path: Path) -> None:
    record, suite_plan = record_of(tmp_path, "echo", "orders", "txn")
    cells = run_all(record, suite_plan)
    assert {name: cell.state for name, cell in cells.items()} == {
        "echo": CellState.NOT_CHECKED,
        "orders": CellState.FAILED,
        "txn": CellState.FAILED,
    }
    assert cells["orders"].reason == "the disk is full"
    assert "ended by SIGKILL" in cells["txn"].reason and "logs/003-txn" in cells["txn"].reason
    echo_cell = cells["echo"]
    assert (record.folder / str(echo_cell.run) / "metadata.json").exists()
    assert echo_cell.versions == {"kafka": "4.3.1"} and echo_cell.fingerprint
    assert echo_cell.duration_s is not None  # a fake run may well take 0.0 s
    assert record.log_of(echo_cell).read_text() == "finished\n"


class InterruptAfter(Interrupt):
    """Ctrl-C after this many runs have ended."""

    def __init__(self, record: SuiteRecord, count: int) -> None:
        super().__init__()
        self._record, self._count = record, count

    @property
    def requested(self) -> bool:
        return sum(cell.state is not CellState.NOT_RUN for cell in self._record.suite.cells) >= self._count


def test_an_interrupt_ends_active_runs_and_keeps_finished_ones(tmp_path: Path) -> None:
    record, suite_plan = record_of(tmp_path, "cdc", "echo", "orders")
    cells = run_all(record, suite_plan, InterruptAfter(record, 2))
    assert cells["cdc"].state is CellState.NOT_RUN
    assert cells["echo"].state is CellState.NOT_CHECKED


def test_a_limit_leaves_out_runs_that_would_end_later(tmp_path: Path) -> None:
    record, suite_plan = record_of(tmp_path, "echo", "orders")
    options = {
        cell.name: replace(
            suite_plan.options[cell.name], time_limit_s=3600.0 if cell.workload == "orders" else 9.0
        )
        for cell in suite_plan.suite.cells
    }
    suite_plan = replace(suite_plan, options=options)
    cells = run_all(record, suite_plan, limit_s=600.0)
    assert [cells["echo"].state, cells["orders"].state] == [CellState.NOT_CHECKED, CellState.NOT_RUN]
    assert "--limit" in cells["orders"].reason


def test_without_free_memory_one_run_is_active_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "free_memory_mb", lambda: 100)
    record, suite_plan = record_of(tmp_path, "echo", "orders")
    most_active = 0
    has_room = SuiteRun._has_room

    def watch_room(self: SuiteRun) -> bool:
        nonlocal most_active
        most_active = max(most_active, len(self._active))
        return has_room(self)

    monkeypatch.setattr(SuiteRun, "_has_room", watch_room)
    run_all(record, suite_plan, jobs=8)
    assert most_active == 1


def test_a_run_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    record, suite_plan = record_of(tmp_path, "cdc")
    cell = run_all(record, suite_plan, most_overhead_s=-59.0)["cdc"]
    assert cell.state is CellState.FAILED
    assert "longer than its time limit" in cell.reason and "logs/001-cdc" in cell.reason


def test_the_remaining_time_is_that_of_the_plan_and_shrinks_with_the_limit(tmp_path: Path) -> None:
    record, suite_plan = record_of(tmp_path, "echo", "orders", "txn")
    runs = suite_run(record, suite_plan, limit_s=250.0)
    estimate_s = preview(suite_plan, [], 2, 2, 250.0).estimate.seconds
    assert runs._left_s() == estimate_s == pytest.approx(210)
    runs._began -= 60
    assert runs._left_s() == 105
    runs._began -= 100
    assert runs._left_s() == 0


def test_the_estimate_includes_the_rest_of_active_runs(tmp_path: Path) -> None:
    _, suite_plan = record_of(tmp_path, "echo", "orders", "txn")
    options, waiting = suite_plan.options, suite_plan.suite.cells[1:]
    assert estimate(options, waiting, 2, None, [30.0]).seconds == 135
    assert estimate(options, waiting, 1, None, [30.0]).seconds == 240
    assert estimate(options, [], 2, None, [30.0, 70.0]).seconds == 70


@pytest.fixture
def check_jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replace `check` by a fake for which every run is valid. Returns the number of runs in each job."""
    jobs: list[int] = []

    def check(histories: Any, *, on_result: Any, **more: Any) -> None:
        jobs.append(len(histories))
        verdicts = [Verdict(str(run.folder), "n", 1, Validity.VALID.json, "all is well") for run in histories]
        for history, verdict in zip(histories, verdicts, strict=True):
            (history.folder / "verdict.json").write_text(verdict.line())
        for n, verdict in enumerate(verdicts):
            on_result(n, verdict)

    monkeypatch.setattr(run, "check", check)
    return jobs


def test_all_runs_are_checked_in_one_job_and_reported_in_one_folder(
    tmp_path: Path, check_jobs: list[int]
) -> None:
    file = tmp_path / "night.toml"
    file.write_text('[matrix]\nworkload = "echo"\nseeds = 3\n')
    planned = plan.load(file, SuiteRequest(settle))
    record = records.create(tmp_path / "store", planned.suite)
    suite = suite_run(record, planned).run()
    assert check_jobs == [3]
    assert [cell.state for cell in suite.cells] == [CellState.VALID] * 3
    files = {path.name for path in record.folder.iterdir()}
    assert {"index.html", "junit.xml", "summary.md", "suite.json", "runs", "logs"} <= files
    assert Suite.load(record.folder).ended


def test_a_resumed_suite_does_not_repeat_finished_runs(tmp_path: Path, check_jobs: list[int]) -> None:
    record, suite_plan = record_of(tmp_path, "echo", "orders")
    run_all(record, suite_plan)
    killed = Suite.load(record.folder)
    echo_cell = next(cell for cell in killed.cells if cell.workload == "echo")
    (record.folder / str(echo_cell.run) / "mark").touch()
    orders = structs.replace(killed.cells[1], state=CellState.NOT_RUN, run=None, reason="")
    SuiteRecord(record.folder, killed).update(orders)
    stored_again = Suite.load(record.folder)
    rest = plan.resume(stored_again, None, SuiteRequest(settle))
    result = suite_run(SuiteRecord(record.folder, stored_again), rest).run()
    assert (record.folder / str(echo_cell.run) / "mark").exists()
    assert {cell.workload: cell.state for cell in result.cells} == {
        "echo": CellState.VALID,
        "orders": CellState.FAILED,
    }
    assert result.took_s >= stored_again.took_s


def test_a_missed_defect_fails_the_suite_and_its_resumption(tmp_path: Path, check_jobs: list[int]) -> None:
    file = tmp_path / "night.toml"
    planted = 'workload = "echo"\nanomaly = ["lost-input"]\nwhy = "planted"\n'
    file.write_text(f'[matrix]\nworkload = "echo"\n[[expected]]\n{planted}')
    planned = plan.load(file, SuiteRequest(settle))
    record = records.create(tmp_path / "store", planned.suite)
    suite = suite_run(record, planned).run()
    assert (suite.cells[0].state, suite.exit_status) == (CellState.MISSED, ExitStatus.INVALID)
    stored = Suite.load(record.folder)
    stored_again = plan.resume(stored, None, SuiteRequest(settle))
    suite = suite_run(SuiteRecord(record.folder, stored_again.suite), stored_again).run()
    assert (suite.cells[0].state, suite.exit_status) == (CellState.MISSED, ExitStatus.INVALID)
    assert suite.expected == [{"workload": "echo", "anomaly": ["lost-input"], "why": "planted"}]
    assert check_jobs == [1]


def test_two_processes_cannot_lock_one_suite(tmp_path: Path) -> None:
    record, _ = record_of(tmp_path, "echo")
    with (
        records.lock(record.folder),
        pytest.raises(UsageError, match="still running"),
        records.lock(record.folder),
    ):
        pass
    with records.lock(record.folder):
        pass


def test_a_signal_during_the_runs_interrupts_the_suite() -> None:
    with Interrupt() as interrupt:
        interrupt.phase = InterruptPhase.SUITE
        interrupt._on_signal(2, None)
        assert interrupt.requested


def test_the_page_is_drawn_during_the_suite(tmp_path: Path) -> None:
    record, _ = record_of(tmp_path, "echo", "orders")
    times = iter([0.0, 0.0, 1.0, 5.0, 5.0, 9.0])
    record = SuiteRecord(record.folder, record.suite, lambda: next(times))
    page = record.folder / "index.html"
    echo_cell = record.suite.cells[0]
    record.update(structs.replace(echo_cell, started="2026-11-24T20:00:00+00:00"))
    record.refresh_page()
    assert "running" in page.read_text() and "The suite is still running" in page.read_text()
    record.update(structs.replace(echo_cell, state=CellState.INVALID, reason="2 inputs were lost"))
    record.refresh_page()  # too soon
    assert "2 inputs were lost" not in page.read_text()
    record.refresh_page()
    assert "2 inputs were lost" in page.read_text()
    page.unlink()
    record.refresh_page()  # nothing is new
    assert not page.exists()
    record.change(ended="2026-11-24T21:00:00+00:00")
    record.draw_pages()
    assert "The suite is still running" not in page.read_text()
