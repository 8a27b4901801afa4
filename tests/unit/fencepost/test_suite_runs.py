"""The runs of a suite, with real processes that play their part: side by side, ended, failed, left for later."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands.options import settle
from fencepost.suites import plan, run
from fencepost.suites import record as records
from fencepost.suites.forecast import Forecast, preview
from fencepost.suites.plan import SuitePlan, SuiteRequest
from fencepost.suites.progress import SuiteLines
from fencepost.suites.record import SuiteRecord
from fencepost.suites.run import SuiteRun, SuiteSettings
from harness.common.errors import ExitStatus, UsageError
from harness.results.suite import Cell, CellState, Suite
from harness.results.verdict import Validity, Verdict
from harness.runner.interrupt import Interrupt, InterruptPhase

ACTOR = """
import json, os, pathlib, sys, time
asked = json.load(sys.stdin)
options = asked["options"]
run = pathlib.Path(options["store"], options["name"], "20261124T200000Z")
(run / "journals").mkdir(parents=True)
from harness.results.run_metadata import RunMetadata
RunMetadata(versions={"kafka": "4.3.1"}).save(run / "metadata.json")
part = {"echo": "ends", "orders": "fails", "txn": "dies", "cdc": "hangs"}[options["workload"]]
ended = {"status": 0, "error": ""}
if part == "fails":
    ended = {"status": 4, "error": "the disk is full"}
if part == "dies":
    os.kill(os.getpid(), 9)
if part == "hangs":
    sys.stdin.close()
    os.read(os.pipe()[0], 1)
print("played", flush=True)
with open(asked["result_file"], "w") as file:
    json.dump(ended, file)
"""
SETTINGS = SuiteSettings(2, None, "local[1]", {}, program=[sys.executable, "-c", ACTOR])


def record_of(tmp_path: Path, *workloads: str) -> tuple[SuiteRecord, SuitePlan]:
    file = tmp_path / "night.toml"
    file.write_text(f"[suite]\nseed = 1\n[matrix]\nworkload = {json.dumps(workloads)}\n")
    made = plan.load(file, SuiteRequest(settle))
    return records.create(tmp_path / "store", made.suite), made


def suite_run(record: SuiteRecord, made: SuitePlan, **settings: Any) -> SuiteRun:
    return SuiteRun(record, made, replace(SETTINGS, **settings), SuiteLines())


def played(
    record: SuiteRecord, made: SuitePlan, interrupt: Interrupt | None = None, **settings: Any
) -> dict[str, Cell]:
    suite_run(record, made, **settings).run_cells(interrupt or Interrupt())
    assert Suite.load(record.folder).cells == list(record.suite.cells)
    return {cell.workload: cell for cell in record.suite.cells}


def measured(made: SuitePlan, **seconds: float) -> Suite:
    """A previous suite whose runs took so many seconds, by workload."""
    cells = [
        replace(cell, state=CellState.VALID, duration_s=seconds[cell.workload])
        for cell in made.suite.cells
        if cell.workload in seconds
    ]
    return replace(made.suite, cells=cells)


def test_each_run_leaves_what_came_of_it(tmp_path: Path) -> None:
    record, made = record_of(tmp_path, "echo", "orders", "txn")
    cells = played(record, made)
    assert {name: cell.state for name, cell in cells.items()} == {
        "echo": CellState.NOT_CHECKED,
        "orders": CellState.FAILED,
        "txn": CellState.FAILED,
    }
    assert cells["orders"].reason == "the disk is full"
    assert "ended by SIGKILL" in cells["txn"].reason and "logs/003-txn" in cells["txn"].reason
    echo = cells["echo"]
    assert (record.folder / str(echo.run) / "metadata.json").exists()
    assert echo.versions == {"kafka": "4.3.1"} and echo.fingerprint
    assert echo.duration_s is not None  # a fake run may well take 0.0 s
    assert record.log_of(echo).read_text() == "played\n"


class Later(Interrupt):
    """Ctrl-C once that many runs are over."""

    def __init__(self, record: SuiteRecord, over: int) -> None:
        super().__init__()
        self._record, self._over = record, over

    @property
    def requested(self) -> bool:
        return sum(cell.state is not CellState.NOT_RUN for cell in self._record.suite.cells) >= self._over


def test_an_interruption_ends_what_runs_and_keeps_what_is_over(tmp_path: Path) -> None:
    record, made = record_of(tmp_path, "cdc", "echo", "orders")
    cells = played(record, made, Later(record, 2))
    assert cells["cdc"].state is CellState.NOT_RUN
    assert cells["echo"].state is CellState.NOT_CHECKED


def test_a_limit_leaves_out_what_would_not_be_over_by_then(tmp_path: Path) -> None:
    record, made = record_of(tmp_path, "echo", "orders")
    record.previous = [measured(made, orders=3660.0)]
    cells = played(record, made, limit_s=600.0)
    assert [cells["echo"].state, cells["orders"].state] == [CellState.NOT_CHECKED, CellState.NOT_RUN]
    assert "--limit" in cells["orders"].reason


def test_without_memory_for_another_one_runs_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "free_memory_mb", lambda: 100)
    record, made = record_of(tmp_path, "echo", "orders")
    most = 0
    has_room = SuiteRun._has_room

    def watched(self: SuiteRun) -> bool:
        nonlocal most
        most = max(most, len(self._active))
        return has_room(self)

    monkeypatch.setattr(SuiteRun, "_has_room", watched)
    played(record, made, jobs=8)
    assert most == 1


def test_a_run_that_never_ends_is_ended(tmp_path: Path) -> None:
    record, made = record_of(tmp_path, "cdc")
    cell = played(record, made, most_overhead_s=-59.0)["cdc"]
    assert cell.state is CellState.FAILED
    assert "longer than its time limit" in cell.reason and "logs/001-cdc" in cell.reason


def test_what_is_left_is_what_the_plan_foretells_and_less_once_a_limit_leaves_no_time(tmp_path: Path) -> None:
    record, made = record_of(tmp_path, "echo", "orders", "txn")
    record.previous = [measured(made, echo=105.0, orders=105.0, txn=105.0)]
    runs = suite_run(record, made, limit_s=250.0)
    foretold = preview(made, record.previous, 2, 2, 250.0).estimate.seconds
    assert runs._left_s() == foretold == pytest.approx(210)
    runs._began -= 60
    assert runs._left_s() == 105
    runs._began -= 100
    assert runs._left_s() == 0


def test_of_runs_that_go_on_the_rest_is_left(tmp_path: Path) -> None:
    _, made = record_of(tmp_path, "echo", "orders", "txn")
    forecast = Forecast(made.options, [measured(made, echo=100.0, orders=100.0, txn=100.0)])
    waiting = made.suite.cells[1:]
    assert forecast.estimate(waiting, 2, None, [30.0]).seconds == 130
    assert forecast.estimate(waiting, 1, None, [30.0]).seconds == 230
    assert forecast.estimate([], 2, None, [30.0, 70.0]).seconds == 70


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A judge to whom every run is valid; how many runs each of its jobs had."""
    jobs: list[int] = []

    def check(given: Any, *, on_result: Any, **more: Any) -> None:
        jobs.append(len(given))
        verdicts = [Verdict(str(one.folder), "n", 1, Validity.VALID, "all is well") for one in given]
        for one, verdict in zip(given, verdicts, strict=True):
            (one.folder / "verdict.json").write_text(verdict.line())
        for n, verdict in enumerate(verdicts):
            on_result(n, verdict)

    monkeypatch.setattr(run, "check", check)
    return jobs


def test_all_runs_are_judged_in_one_job_and_told_in_one_folder(tmp_path: Path, judge: list[int]) -> None:
    file = tmp_path / "night.toml"
    file.write_text('[matrix]\nworkload = "echo"\nseeds = 3\n')
    planned = plan.load(file, SuiteRequest(settle))
    record = records.create(tmp_path / "store", planned.suite)
    made = suite_run(record, planned).run()
    assert judge == [3]
    assert [cell.state for cell in made.cells] == [CellState.VALID] * 3
    left = {path.name for path in record.folder.iterdir()}
    assert {"index.html", "junit.xml", "summary.md", "suite.json", "runs", "logs"} <= left
    assert Suite.load(record.folder).ended


def test_what_is_done_is_not_done_again(tmp_path: Path, judge: list[int]) -> None:
    record, made = record_of(tmp_path, "echo", "orders")
    played(record, made)
    killed = Suite.load(record.folder)
    echo = next(cell for cell in killed.cells if cell.workload == "echo")
    (record.folder / str(echo.run) / "mark").touch()
    orders = replace(killed.cells[1], state=CellState.NOT_RUN, run=None, reason="")
    SuiteRecord(record.folder, killed).update(orders)
    again = Suite.load(record.folder)
    rest = plan.resume(again, None, SuiteRequest(settle))
    ended = suite_run(SuiteRecord(record.folder, again), rest).run()
    assert (record.folder / str(echo.run) / "mark").exists()
    assert {cell.workload: cell.state for cell in ended.cells} == {
        "echo": CellState.VALID,
        "orders": CellState.FAILED,
    }
    assert ended.took_s >= again.took_s


def test_a_planted_defect_that_is_not_caught_fails_the_suite_also_after_it_is_resumed(
    tmp_path: Path, judge: list[int]
) -> None:
    file = tmp_path / "night.toml"
    planted = 'workload = "echo"\nanomaly = ["lost-input"]\nwhy = "planted"\n'
    file.write_text(f'[matrix]\nworkload = "echo"\n[[expected]]\n{planted}')
    planned = plan.load(file, SuiteRequest(settle))
    record = records.create(tmp_path / "store", planned.suite)
    made = suite_run(record, planned).run()
    assert (made.cells[0].state, made.exit_status) == (CellState.MISSED, ExitStatus.INVALID)
    stored = Suite.load(record.folder)
    again = plan.resume(stored, None, SuiteRequest(settle))
    made = suite_run(SuiteRecord(record.folder, again.suite), again).run()
    assert (made.cells[0].state, made.exit_status) == (CellState.MISSED, ExitStatus.INVALID)
    assert made.expected == [{"workload": "echo", "anomaly": ["lost-input"], "why": "planted"}]
    assert judge == [1]


def test_two_do_not_carry_out_one_suite(tmp_path: Path) -> None:
    record, _ = record_of(tmp_path, "echo")
    with (
        records.lock(record.folder),
        pytest.raises(UsageError, match="still running"),
        records.lock(record.folder),
    ):
        pass
    with records.lock(record.folder):
        pass


def test_a_signal_while_runs_go_on_asks_the_suite_to_end() -> None:
    with Interrupt() as interrupt:
        interrupt.phase = InterruptPhase.SUITE
        interrupt._on_signal(2, None)
        assert interrupt.requested


def test_a_page_is_drawn_while_the_suite_goes_on(tmp_path: Path) -> None:
    record, _ = record_of(tmp_path, "echo", "orders")
    times = iter([0.0, 0.0, 1.0, 5.0, 5.0, 9.0])
    record = SuiteRecord(record.folder, record.suite, lambda: next(times))
    page = record.folder / "index.html"
    echo = record.suite.cells[0]
    record.update(replace(echo, started="2026-11-24T20:00:00+00:00"))
    record.refresh_page()
    assert "running" in page.read_text() and "It is still running" in page.read_text()
    record.update(replace(echo, state=CellState.INVALID, reason="2 inputs were lost"))
    record.refresh_page()  # too soon
    assert "2 inputs were lost" not in page.read_text()
    record.refresh_page()
    assert "2 inputs were lost" in page.read_text()
    page.unlink()
    record.refresh_page()  # nothing is new
    assert not page.exists()
    record.change(ended="2026-11-24T21:00:00+00:00")
    record.draw_pages()
    assert "It goes on" not in page.read_text()
