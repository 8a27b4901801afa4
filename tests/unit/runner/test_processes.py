"""Processes are started, replaced and stopped, and all their reports are read."""

from pathlib import Path

import pytest

from harness.common.errors import StartFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.model.vocabulary import Role, WorkerStep
from harness.processes.messages import Counts, Report
from harness.processes.specs import ObserverSpec
from harness.runner.run_process import RunProcess
from tests.support.fake_run import EXITS_AT_START, EXITS_WHEN_READY, IDLE, Script, fake_run

pytestmark = pytest.mark.processes


def test_a_worker_waits_at_the_step_and_reports_its_inputs(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        worker = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([worker])
        assert run.processes.hold_at_step(worker, WorkerStep.AFTER_SEND, 5) == {"in/0": (0, 10)}
        assert run.processes.counts() == Counts(inputs=10, committed=1)


def test_a_worker_that_has_nothing_to_do_reaches_no_step(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(IDLE)) as run:
        worker = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([worker])
        with pytest.raises(WaitTimeout, match=r"after-send; last seen: it is ready, is stopped at no step$"):
            run.processes.hold_at_step(worker, WorkerStep.AFTER_SEND, 0.2)


def test_the_error_of_a_worker_that_ends_at_its_start_has_its_last_output(tmp_path: Path) -> None:
    with (
        fake_run(tmp_path, Script(EXITS_AT_START)) as run,
        pytest.raises(StartFailed, match="Segmentation fault"),
    ):
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])


def test_a_report_that_arrives_during_a_check_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process reports once that it is ready, to another thread. A run once waited 60 s because this was lost."""

    def report_meanwhile(member: RunProcess, *_: object) -> bool:
        member.status.update(Report(ready=True))
        return False

    monkeypatch.setattr("harness.runner.processes.is_ready", report_meanwhile)
    with fake_run(tmp_path, Script("for command in commands:\n    break")) as run:
        worker = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([worker])
        assert worker.status.ready


def test_a_worker_that_ends_by_itself_is_replaced_and_noted(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(EXITS_WHEN_READY)) as run:
        worker = run.processes.start_worker("s", "s-1")
        wait_for(lambda: not worker.alive, "its end", 10)
        run.processes.replace_dead()
        assert [member.journal for member in run.processes.all_processes] == ["s-1.0", "s-1.1"]
        assert [(reason.code, reason.subject, reason.text) for reason in run.processes.unexpected_ends] == [
            ("unexpected-end", "s-1.0", "s-1.0 ended unexpectedly: Segmentation fault")
        ]


def test_an_observer_that_ends_by_itself_ends_the_run(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(others={Role.OBSERVER: EXITS_WHEN_READY})) as run:
        observer = run.processes.start_harness_process("observer-1", "harness-clients", ObserverSpec(()))
        wait_for(lambda: not observer.alive, "its end", 10)
        with pytest.raises(StartFailed, match="observer-1 ended unexpectedly"):
            run.processes.replace_dead()


def test_a_worker_that_does_not_stop_is_killed_and_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.runner.run_process.STOP_TIMEOUT_S", 0.2)
    ignores_commands = "report(ready=True)\nwhile True: time.sleep(600)"
    with fake_run(tmp_path, Script(ignores_commands)) as run:
        worker = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([worker])
        assert run.processes.stop([worker]) == [worker]
        assert worker.child.poll() is not None
