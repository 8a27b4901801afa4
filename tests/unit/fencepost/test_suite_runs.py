"""The runs of a suite, with real processes that play their part: side by side, ended, failed, left for later."""

import json
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands.options import settled
from fencepost.suites import carry_out, conduct, folder, plan, resuming
from fencepost.suites.carry_out import Conditions, Runs
from fencepost.suites.conduct import How
from fencepost.suites.drawing import Index, draw_pages
from fencepost.suites.folder import Book
from fencepost.suites.forecast import Forecast
from fencepost.suites.plan import Asked, Planned
from fencepost.suites.preview import preview
from fencepost.suites.telling import SuiteLines
from harness.errors import ExitStatus, UsageError
from harness.processes.spawn import Supervisor
from harness.runner.interrupt import Interrupt, Stage
from harness.suite import Cell, State, Suite
from harness.verdict import Validity, Verdict

ACTOR = """
import json, os, pathlib, sys, time
asked = json.load(sys.stdin)
options = asked["options"]
run = pathlib.Path(options["store"], options["name"], "20261124T200000Z")
(run / "journals").mkdir(parents=True)
from harness.facts import Facts
Facts(versions={"kafka": "4.3.1"}).save(run / "facts.json")
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
with open(asked["ended"], "w") as file:
    json.dump(ended, file)
"""
TODAY = date(2026, 11, 24)


def book_of(tmp_path: Path, *workloads: str) -> tuple[Book, Planned]:
    file = tmp_path / "night.toml"
    file.write_text(f"[suite]\nseed = 1\n[matrix]\nworkload = {json.dumps(workloads)}\n")
    planned = plan.load(file, Asked(settled))
    return folder.create(tmp_path / "store", planned.suite), planned


def conditions(planned: Planned, **more: Any) -> Conditions:
    told: dict[str, Any] = {
        "jobs": 2,
        "judge_each": False,
        "limit_s": None,
        "options": planned.options,
        "forecast": Forecast(planned.options, {}),
        "foreseen": planned.foreseen,
        "today": TODAY,
        "program": [sys.executable, "-c", ACTOR],
    }
    return Conditions(**{**told, **more})


def played(book: Book, planned: Planned, interrupt: Interrupt | None = None, **more: Any) -> dict[str, Cell]:
    with Supervisor() as supervisor:
        runs = Runs(
            book,
            book.suite.cells,
            conditions(planned, **more),
            supervisor,
            SuiteLines(),
            Index(book.folder, []),
        )
        runs.carry_out(interrupt or Interrupt())
    assert Suite.load(book.folder).cells == list(book.suite.cells)
    return {cell.workload: cell for cell in book.suite.cells}


def test_each_run_leaves_what_came_of_it(tmp_path: Path) -> None:
    book, planned = book_of(tmp_path, "echo", "orders", "txn")
    cells = played(book, planned)
    assert {name: cell.state for name, cell in cells.items()} == {
        "echo": State.NOT_JUDGED,
        "orders": State.FAILED,
        "txn": State.FAILED,
    }
    assert cells["orders"].reason == "the disk is full"
    assert "ended by SIGKILL" in cells["txn"].reason and "logs/003-txn" in cells["txn"].reason
    echo = cells["echo"]
    assert (book.folder / str(echo.run) / "facts.json").exists()
    assert echo.versions == {"kafka": "4.3.1"} and echo.fingerprint
    assert echo.duration_s is not None  # a fake run may well take 0.0 s
    assert book.log_of(echo).read_text() == "played\n"


class Later(Interrupt):
    """Ctrl-C once that many runs are over."""

    def __init__(self, book: Book, over: int) -> None:
        super().__init__()
        self._book, self._over = book, over

    @property
    def came(self) -> bool:
        return sum(cell.state is not State.NOT_RUN for cell in self._book.suite.cells) >= self._over


def test_an_interruption_ends_what_runs_and_keeps_what_is_over(tmp_path: Path) -> None:
    book, planned = book_of(tmp_path, "cdc", "echo", "orders")
    cells = played(book, planned, Later(book, 2))
    assert cells["cdc"].state is State.NOT_RUN
    assert cells["echo"].state is State.NOT_JUDGED


def test_a_limit_leaves_out_what_would_not_be_over_by_then(tmp_path: Path) -> None:
    book, planned = book_of(tmp_path, "echo", "orders")
    name = book.suite.cells[1].name
    cells = played(book, planned, limit_s=600.0, forecast=Forecast(planned.options, {name: 3600.0}))
    assert [cells["echo"].state, cells["orders"].state] == [State.NOT_JUDGED, State.NOT_RUN]
    assert "--limit" in cells["orders"].reason


def test_without_memory_for_another_one_runs_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry_out, "free_memory_mb", lambda: 100)
    book, planned = book_of(tmp_path, "echo", "orders")
    most = 0
    has_room = Runs._has_room

    def watched(self: Runs) -> bool:
        nonlocal most
        most = max(most, len(self._going))
        return has_room(self)

    monkeypatch.setattr(Runs, "_has_room", watched)
    played(book, planned, jobs=8)
    assert most == 1


def test_a_run_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry_out, "MOST_OVERHEAD_S", -59.0)
    book, planned = book_of(tmp_path, "cdc")
    cell = played(book, planned)["cdc"]
    assert cell.state is State.FAILED
    assert "longer than its time limit" in cell.reason and "logs/001-cdc" in cell.reason


def test_what_is_left_is_what_the_plan_foretells_and_less_once_a_limit_leaves_no_time(tmp_path: Path) -> None:
    book, planned = book_of(tmp_path, "echo", "orders", "txn")
    with Supervisor() as supervisor:
        forecast = Forecast(planned.options, {cell.name: 45.0 for cell in book.suite.cells})
        told = conditions(planned, limit_s=250.0, forecast=forecast)
        runs = Runs(book, book.suite.cells, told, supervisor, SuiteLines(), Index(book.folder, []))
        assert runs._left_s() == preview(planned, [], 2, 2, 250.0).outlook.seconds == pytest.approx(210)
        runs._began -= 60
        assert runs._left_s() == 105
        runs._began -= 100
        assert runs._left_s() == 0


def test_of_runs_that_go_on_the_rest_is_left(tmp_path: Path) -> None:
    _, planned = book_of(tmp_path, "echo", "orders", "txn")
    forecast = Forecast(planned.options, {cell.name: 40.0 for cell in planned.suite.cells})
    waiting = planned.suite.cells[1:]
    assert forecast.outlook(waiting, 2, None, [30.0]).seconds == 130
    assert forecast.outlook(waiting, 1, None, [30.0]).seconds == 230
    assert forecast.outlook([], 2, None, [30.0, 70.0]).seconds == 70


HOW = How(jobs=2, limit_s=None, master="local[1]", spark_conf={})


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A judge to whom every run is valid; how many runs each of its jobs had."""
    jobs: list[int] = []

    def check(given: Any, *, found: Any, **more: Any) -> None:
        jobs.append(len(given))
        verdicts = [Verdict(str(one.folder), "n", 1, Validity.VALID, "all is well") for one in given]
        for one, verdict in zip(given, verdicts, strict=True):
            (one.folder / "verdict.json").write_text(verdict.line())
        for n, verdict in enumerate(verdicts):
            found(n, verdict)

    monkeypatch.setattr(conduct, "check", check)
    monkeypatch.setattr(carry_out, "PROGRAM", [sys.executable, "-c", ACTOR])
    monkeypatch.setattr(
        conduct,
        "Conditions",
        lambda **told: Conditions(**told, program=[sys.executable, "-c", ACTOR]),
    )
    return jobs


def test_all_runs_are_judged_in_one_job_and_told_in_one_folder(tmp_path: Path, judge: list[int]) -> None:
    file = tmp_path / "night.toml"
    file.write_text('[matrix]\nworkload = "echo"\nseeds = 3\n')
    planned = plan.load(file, Asked(settled))
    book = folder.create(tmp_path / "store", planned.suite)
    made = conduct.conduct(book, planned, HOW, SuiteLines())
    assert judge == [3]
    assert [cell.state for cell in made.cells] == [State.VALID] * 3
    left = {path.name for path in book.folder.iterdir()}
    assert {"index.html", "junit.xml", "summary.md", "suite.json", "runs", "logs"} <= left
    assert Suite.load(book.folder).ended


def test_what_is_done_is_not_done_again(tmp_path: Path, judge: list[int]) -> None:
    book, planned = book_of(tmp_path, "echo", "orders")
    played(book, planned)
    killed = Suite.load(book.folder)
    echo = next(cell for cell in killed.cells if cell.workload == "echo")
    (book.folder / str(echo.run) / "mark").touch()
    orders = replace(killed.cells[1], state=State.NOT_RUN, run=None, reason="")
    Book(book.folder, killed).enter(orders)
    again = Suite.load(book.folder)
    made = conduct.conduct(Book(book.folder, again), resuming.again(again, Asked(settled)), HOW, SuiteLines())
    assert (book.folder / str(echo.run) / "mark").exists()
    assert {cell.workload: cell.state for cell in made.cells} == {"echo": State.VALID, "orders": State.FAILED}
    assert made.took_s >= again.took_s


def test_a_planted_defect_that_is_not_caught_fails_the_suite_also_after_it_is_resumed(
    tmp_path: Path, judge: list[int]
) -> None:
    file = tmp_path / "night.toml"
    planted = 'workload = "echo"\nanomaly = ["lost-input"]\nwhy = "planted"\n'
    file.write_text(f'[matrix]\nworkload = "echo"\n[[expected]]\n{planted}')
    planned = plan.load(file, Asked(settled))
    book = folder.create(tmp_path / "store", planned.suite)
    made = conduct.conduct(book, planned, HOW, SuiteLines())
    assert (made.cells[0].state, made.exit_status) == (State.MISSED, ExitStatus.INVALID)
    stored = Suite.load(book.folder)
    again = resuming.again(stored, Asked(settled))
    made = conduct.conduct(Book(book.folder, again.suite), again, HOW, SuiteLines())
    assert (made.cells[0].state, made.exit_status) == (State.MISSED, ExitStatus.INVALID)
    assert made.expected == [{"workload": "echo", "anomaly": ["lost-input"], "why": "planted"}]
    assert judge == [1]


def test_two_do_not_carry_out_one_suite(tmp_path: Path) -> None:
    book, _ = book_of(tmp_path, "echo")
    with (
        folder.alone(book.folder),
        pytest.raises(UsageError, match="still going on"),
        folder.alone(book.folder),
    ):
        pass
    with folder.alone(book.folder):
        pass


def test_a_signal_while_runs_go_on_asks_the_suite_to_end() -> None:
    with Interrupt() as interrupt:
        interrupt.stage = Stage.SUITE
        interrupt._on_signal(2, None)
        assert interrupt.came


def test_a_page_is_drawn_while_the_suite_goes_on(tmp_path: Path) -> None:
    book, _ = book_of(tmp_path, "echo", "orders")
    times = iter([0.0, 0.0, 1.0, 5.0, 5.0, 9.0])
    index = Index(book.folder, [], lambda: next(times))
    page = book.folder / "index.html"
    echo = book.suite.cells[0]
    book.enter(replace(echo, started="2026-11-24T20:00:00+00:00"))
    index.keep_up(book.suite)
    assert "running" in page.read_text() and "It goes on" in page.read_text()
    book.enter(replace(echo, state=State.INVALID, reason="2 inputs were lost"))
    index.keep_up(book.suite)  # too soon
    assert "2 inputs were lost" not in page.read_text()
    index.keep_up(book.suite)
    assert "2 inputs were lost" in page.read_text()
    page.unlink()
    index.keep_up(book.suite)  # nothing is new
    assert not page.exists()
    book.change(ended="2026-11-24T21:00:00+00:00")
    draw_pages(book.folder, book.suite)
    assert "It goes on" not in page.read_text()
