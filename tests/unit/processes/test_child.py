import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.common.errors import EnvironmentFailure, StartFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.processes.marks import VARIABLE
from harness.processes.spawn import Supervisor

SLEEP = ["sleep", "600"]


@pytest.fixture(scope="module")
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as one:
        yield one


def test_a_kill_says_what_ended_the_process(supervisor: Supervisor) -> None:
    child = supervisor.spawn(SLEEP, name="sleeper")
    assert child.running
    assert child.kill() == f"process {child.pid} ended by SIGKILL"
    assert not child.running
    assert not psutil.pid_exists(child.pid)


def test_a_kill_does_not_claim_what_another_end_did(supervisor: Supervisor) -> None:
    child = supervisor.spawn(["sh", "-c", "exit 3"], name="short-lived")
    child.wait(5)
    assert child.kill() == f"process {child.pid} ended with status 3"


def test_a_process_that_has_ended_is_not_waited_for_to_stop(supervisor: Supervisor) -> None:
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


def test_a_paused_process_can_be_killed_and_stopped(supervisor: Supervisor) -> None:
    one, other = (supervisor.spawn(SLEEP, name="sleeper") for _ in range(2))
    one.pause()
    assert one.kill().endswith("ended by SIGKILL")
    other.pause()
    assert other.stop(5).endswith("ended by SIGTERM")


def test_what_a_launcher_has_started_is_struck_with_it(supervisor: Supervisor) -> None:
    launcher = supervisor.spawn(["sh", "-c", "sleep 600 & sleep 600; true"], name="launcher")

    def started() -> list[psutil.Process] | None:
        found = psutil.Process(launcher.pid).children()
        return found if [one.name() for one in found] == ["sleep", "sleep"] else None

    both = wait_for(started, "the launcher's children", 5)
    launcher.pause()
    assert {one.status() for one in both} == {psutil.STATUS_STOPPED}
    launcher.resume()
    for one in both:
        wait_for(lambda one=one: one.status() != psutil.STATUS_STOPPED, "the child to go on", 5)
    assert launcher.kill() == f"process {launcher.pid} ended by SIGKILL"
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in both)


def test_pausing_a_process_that_has_ended_says_so(supervisor: Supervisor, monkeypatch) -> None:
    monkeypatch.setattr("harness.processes.child.PAUSE_TIMEOUT_S", 0.01)
    child = supervisor.spawn(SLEEP, name="sleeper")
    child.kill()
    with pytest.raises(WaitTimeout, match="ended by SIGKILL"):
        child.pause()


def test_a_process_that_is_deaf_to_sigterm_does_not_block_its_stop(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    deaf = tmp_path / "deaf"
    script = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); open(sys.argv[1], 'x'); input()"
    )
    with Path("/dev/zero").open("rb") as endless:
        child = supervisor.spawn([sys.executable, "-c", script, str(deaf)], name="deaf", stdin=endless)
        wait_for(deaf.exists, "the process to be deaf", 10)
        with pytest.raises(WaitTimeout, match="the end of deaf"):
            child.stop(0.0)
        child.kill()


def test_children_have_a_session_of_their_own_and_the_mark(supervisor: Supervisor) -> None:
    child = supervisor.spawn(SLEEP, name="sleeper", env={"COLOUR": "red"})
    process = psutil.Process(child.pid)
    environment = wait_for(process.environ, "the child's environment to be seen", 5)
    assert environment[VARIABLE] == supervisor.mark
    assert environment["COLOUR"] == "red"
    assert os.getsid(child.pid) == child.pid
    child.kill()


def test_output_is_appended_to_the_log(supervisor: Supervisor, tmp_path: Path) -> None:
    for word in ("one", "two"):
        supervisor.spawn(["echo", word], name="echo", log_file=tmp_path / "log").wait(5)
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_a_program_that_is_not_there_is_named(supervisor: Supervisor) -> None:
    with pytest.raises(StartFailed, match="no-such-program"):
        supervisor.spawn(["/no-such-program"], name="nothing")


def test_leaving_ends_children_and_their_children_and_scratch_folders() -> None:
    with Supervisor() as own:
        folder = own.scratch_folder("test")
        child = own.spawn(["setsid", "--fork", "sleep", "601"], name="forker")
        child.wait(5)
        paused = own.spawn(SLEEP, name="sleeper")
        paused.pause()
        mark = own.mark
    assert not folder.exists()
    assert not [p for p in psutil.process_iter() if _carries(p, mark)]


def test_nothing_is_started_once_the_guardian_is_gone() -> None:
    with Supervisor() as own:
        guardian = own._guardian
        assert guardian is not None
        psutil.Process(guardian.pid).kill()
        psutil.Process(guardian.pid).wait()
        assert not own.alive
        with pytest.raises(EnvironmentFailure, match="guardian"):
            own.spawn(SLEEP, name="sleeper")


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(VARIABLE) == mark
    except psutil.Error:
        return False


def test_what_the_environment_gets_later_is_not_for_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Supervisor() as own:
        monkeypatch.setenv(
            "PYSPARK_GATEWAY_PORT", "1"
        )  # as a Spark of ours does, which a user's would then take
        told = own.spawn(["env"], name="env", log_file=tmp_path / "env.log")
        told.wait(10.0)
    assert "PYSPARK_GATEWAY_PORT" not in (tmp_path / "env.log").read_text()
