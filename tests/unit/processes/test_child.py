import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.common.errors import EnvironmentFailure, StartFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.processes.guardian import VARIABLE
from harness.processes.spawn import Supervisor

pytestmark = pytest.mark.processes

SLEEP = ["sleep", "600"]


@pytest.fixture(scope="module")
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as started:
        yield started


def test_a_kill_returns_the_signal_that_ended_the_process(supervisor: Supervisor) -> None:
    child = supervisor.spawn(SLEEP, name="sleeper")
    assert child.running
    assert child.kill() == f"process {child.pid} ended by SIGKILL"
    assert not child.running
    assert not psutil.pid_exists(child.pid)


def test_a_kill_of_an_ended_process_returns_its_exit_status(supervisor: Supervisor) -> None:
    child = supervisor.spawn(["sh", "-c", "exit 3"], name="short-lived")
    child.wait(5)
    assert child.kill() == f"process {child.pid} ended with status 3"


def test_pausing_a_process_that_has_exited_fails_at_once(supervisor: Supervisor) -> None:
    child = supervisor.spawn(["sh", "-c", "exit 3"], name="short-lived")
    child.wait(5)
    words = f"waited 0 s for short-lived to be stopped by SIGSTOP; last seen: process {child.pid} ended with status 3"
    with pytest.raises(WaitTimeout, match=words):
        child.pause()


def test_a_paused_process_is_not_running_until_it_is_resumed(supervisor: Supervisor) -> None:
    child = supervisor.spawn(SLEEP, name="sleeper")
    assert child.pause() == f"process {child.pid} stopped by SIGSTOP"
    assert child.paused
    assert not child.running
    assert child.pause() == f"process {child.pid} stopped by SIGSTOP"
    assert child.resume() == f"process {child.pid} continued by SIGCONT"
    assert child.running
    assert "was not stopped" in child.resume()
    child.kill()


def test_a_paused_process_can_be_killed_or_stopped(supervisor: Supervisor) -> None:
    first, second = (supervisor.spawn(SLEEP, name="sleeper") for _ in range(2))
    first.pause()
    assert first.kill().endswith("ended by SIGKILL")
    second.pause()
    assert second.stop(5).endswith("ended by SIGTERM")


def test_signals_reach_the_processes_that_a_launcher_has_started(supervisor: Supervisor) -> None:
    launcher = supervisor.spawn(["sh", "-c", "sleep 600 & sleep 600; true"], name="launcher")

    def started() -> list[psutil.Process] | None:
        children = psutil.Process(launcher.pid).children()
        return children if [child.name() for child in children] == ["sleep", "sleep"] else None

    both = wait_for(started, "the launcher's children", 5)
    launcher.pause()
    assert {child.status() for child in both} == {psutil.STATUS_STOPPED}
    launcher.resume()
    for child in both:
        wait_for(lambda child=child: child.status() != psutil.STATUS_STOPPED, "the child to go on", 5)
    assert launcher.kill() == f"process {launcher.pid} ended by SIGKILL"
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in both)


def test_pausing_a_killed_process_fails_and_names_the_signal(supervisor: Supervisor, monkeypatch) -> None:
    monkeypatch.setattr("harness.processes.child.PAUSE_TIMEOUT_S", 0.01)
    child = supervisor.spawn(SLEEP, name="sleeper")
    child.kill()
    with pytest.raises(WaitTimeout, match="ended by SIGKILL"):
        child.pause()


def test_stopping_a_process_that_ignores_sigterm_times_out(supervisor: Supervisor, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); open(sys.argv[1], 'x'); input()"
    )
    with Path("/dev/zero").open("rb") as endless:
        child = supervisor.spawn([sys.executable, "-c", script, str(ready)], name="stubborn", stdin=endless)
        wait_for(ready.exists, "the process to ignore SIGTERM", 10)
        with pytest.raises(WaitTimeout, match="the end of stubborn"):
            child.stop(0.0)
        child.kill()


def test_children_have_their_own_session_and_the_mark(supervisor: Supervisor) -> None:
    child = supervisor.spawn(SLEEP, name="sleeper", env={"COLOUR": "red"})
    process = psutil.Process(child.pid)
    environment = wait_for(process.environ, "the child's environment to be visible", 5)
    assert environment[VARIABLE] == supervisor.mark
    assert environment["COLOUR"] == "red"
    assert os.getsid(child.pid) == child.pid
    child.kill()


def test_output_is_appended_to_the_log(supervisor: Supervisor, tmp_path: Path) -> None:
    for word in ("one", "two"):
        supervisor.spawn(["echo", word], name="echo", log_file=tmp_path / "log").wait(5)
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_the_error_for_a_missing_program_names_it(supervisor: Supervisor) -> None:
    with pytest.raises(StartFailed, match="no-such-program"):
        supervisor.spawn(["/no-such-program"], name="nothing")


def test_leaving_a_supervisor_ends_descendants_and_removes_scratch_folders() -> None:
    with Supervisor() as supervisor:
        folder = supervisor.scratch_folder("test")
        child = supervisor.spawn(["setsid", "--fork", "sleep", "601"], name="forker")
        child.wait(5)
        paused = supervisor.spawn(SLEEP, name="sleeper")
        paused.pause()
        mark = supervisor.mark
    assert not folder.exists()
    assert not [p for p in psutil.process_iter() if _has_mark(p, mark)]


def test_nothing_is_started_after_the_guardian_has_ended() -> None:
    with Supervisor() as supervisor:
        guardian = supervisor._guardian
        assert guardian is not None
        psutil.Process(guardian.pid).kill()
        psutil.Process(guardian.pid).wait()
        assert not supervisor.alive
        with pytest.raises(EnvironmentFailure, match="guardian"):
            supervisor.spawn(SLEEP, name="sleeper")


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(VARIABLE) == mark
    except psutil.Error:
        return False


def test_later_changes_of_the_environment_do_not_reach_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Supervisor() as supervisor:
        monkeypatch.setenv(
            "PYSPARK_GATEWAY_PORT", "1"
        )  # Fencepost's Spark sets it; a user's Spark would use it
        child = supervisor.spawn(["env"], name="env", log_file=tmp_path / "env.log")
        child.wait(10.0)
    assert "PYSPARK_GATEWAY_PORT" not in (tmp_path / "env.log").read_text()
