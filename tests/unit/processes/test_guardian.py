"""Runs that are killed. Each is a small Python process with its own supervisor."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from harness.common.waiting import wait_for
from harness.processes import guardian
from harness.processes.child import BoundedLog
from harness.processes.guardian import (
    SCRATCH_PREFIX,
    UNMARKED_PREFIXES,
    is_abandoned,
    new_mark,
    start_time,
    sweep_leftovers,
)
from harness.processes.spawn import Supervisor

pytestmark = pytest.mark.processes

RUN = """
import sys, subprocess
from harness.processes.spawn import Supervisor
supervisor = Supervisor().__enter__()
folder = supervisor.scratch_folder("test")
children = [supervisor.spawn(["sleep", "600"], name="sleeper") for _ in range(2)]
children[0].pause()
supervisor.spawn(["setsid", "--fork", "sleep", "602"], name="forker").wait(5)
print(supervisor.mark, supervisor._guardian.pid, folder, flush=True)
while {busy}:
    supervisor.spawn(["sleep", "603"], name="another")
sys.stdin.read()
"""


class Run:
    def __init__(self, busy: bool = False) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN.format(busy=busy)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.mark, guardian, folder = self.process.stdout.readline().decode().split()
        self.guardian, self.folder = int(guardian), Path(folder)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def remaining(self) -> list[psutil.Process]:
        return [process for process, mark in guardian.marked_processes() if mark == self.mark]


@pytest.mark.parametrize("busy", [False, True])
def test_a_killed_run_leaves_no_processes_and_no_folders(busy: bool) -> None:
    run = Run(busy)
    wait_for(lambda: len(run.remaining()) >= 3, "the processes of the run to have its mark", 20)
    assert run.folder.is_dir()
    run.kill()
    wait_for(lambda: start_time(run.guardian) is None, "the end of the guardian", 20)
    assert not run.remaining()
    assert not run.folder.exists()


def test_a_later_run_cleans_up_after_a_killed_run_and_its_killed_guardian() -> None:
    run, other = Run(), Run()
    os.kill(run.guardian, signal.SIGKILL)
    run.kill()
    assert run.remaining()
    removed = sweep_leftovers()
    assert not run.remaining()
    assert not run.folder.exists()
    assert sum("sleep" in words for words in removed) == 3
    assert other.remaining(), "the processes of a running run were killed"
    other.kill()
    wait_for(lambda: not other.folder.exists(), "the end of the other run", 20)


def test_a_guardian_ignores_the_signals_that_end_a_terminal() -> None:
    run = Run()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(run.guardian, number)
    run.kill()
    wait_for(lambda: not run.remaining(), "the end of the run's processes", 20)


def test_a_run_that_is_running_is_not_abandoned() -> None:
    assert not is_abandoned(new_mark())


def test_a_run_is_abandoned_if_another_process_has_its_pid() -> None:
    pid, start, *rest = new_mark().split(".")
    assert is_abandoned(".".join([pid, str(int(start) - 1), *rest]))


def test_a_run_in_another_pid_namespace_is_not_abandoned() -> None:
    _, start, _, word = new_mark().split(".")
    assert not is_abandoned(".".join(["999999999", start, "1", word]))
    assert not is_abandoned("not a mark")


def test_folders_of_running_runs_and_of_other_programs_are_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    current = tmp_path / f"{SCRATCH_PREFIX}{new_mark()}-a"
    other = tmp_path / f"{SCRATCH_PREFIX}notes"
    current.mkdir()
    other.mkdir()
    sweep_leftovers()
    assert current.exists()
    assert other.exists()


@pytest.mark.parametrize("prefix", UNMARKED_PREFIXES)
def test_an_old_unmarked_folder_that_no_process_uses_is_removed(prefix: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    unused, used, new = (tmp_path / f"{prefix}{name}" for name in ("unused", "used", "new"))
    for folder in (unused, used, new):
        (folder / "local").mkdir(parents=True)
    for folder in (unused, used):
        os.utime(folder, (0, 0))
    with subprocess.Popen(["sleep", "600"], env={"GATEWAY": f"{used}/gateway"}) as process:
        try:
            assert f"folder {unused}" in sweep_leftovers()
        finally:
            process.kill()
    assert sorted(tmp_path.iterdir()) == [new, used]


def test_toxiproxy_logs_errors_only(tmp_path) -> None:
    with Supervisor() as supervisor:
        for name in ("toxiproxy", "another"):
            child = supervisor.spawn(
                ["sh", "-c", "echo level $LOG_LEVEL"], name=name, log_file=tmp_path / f"{name}.log"
            )
            child.wait(10)
    assert (tmp_path / "toxiproxy.log").read_text() == "level error\n"
    assert (tmp_path / "another.log").read_text() == "level\n"


def test_a_log_keeps_its_first_and_its_last_part(tmp_path) -> None:
    log = BoundedLog(tmp_path / "x.log", limit_bytes=1000)
    with os.fdopen(log.write_end, "wb", buffering=0, closefd=False) as pipe:
        for number in range(100_000):
            pipe.write(b"line %d\n" % number)
    log.close_write_end()
    log.wait(20)
    assert not log._thread.is_alive()
    assert (tmp_path / "x.log").read_text().startswith("line 0\n")
    assert (tmp_path / "x.log.last").read_text().endswith("line 99999\n")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 3 * 64 * 1024
