"""Large logs are read in a process of their own: the same tables come of it, and the same errors."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from harness.errors import EnvironmentFailure
from harness.record.partitions import PartitionIds
from harness.record.schema import LOG
from harness.waiting import wait_for
from harness.witness import beside
from harness.witness.beside import capturing
from harness.witness.capture import ReplicaSource

DATA = Path(__file__).parent / "data"
TOPICS = ["purchases", "invoices-eu"]


def read(out: Path, sources: Sequence[ReplicaSource]) -> list[tuple[int, str, int]]:
    """Read the logs, beside journals that name partitions and have 1,000 operations."""
    names = PartitionIds()
    with capturing(1, sources, {}, out, TOPICS, {("purchases", 0): 3}) as finish:
        names.id("invoices-eu", 7)  # the journals', which are first
        names.id("purchases", 0)
        finish(names, len)
    return list(names)


def test_the_tables_are_those_that_are_read_after_the_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [ReplicaSource(1, DATA)]
    after = read(tmp_path / "after", sources)
    monkeypatch.setattr(beside, "LARGE_BYTES", 0)
    monkeypatch.setattr(beside, "capture", lambda *_: pytest.fail("it was read here"))
    assert read(tmp_path / "beside", sources) == after
    for table in LOG:
        first, second = (pq.read_table(tmp_path / way / f"{table}.parquet") for way in ("after", "beside"))
        assert first.num_rows > 0
        assert first.equals(second), table
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("after", "beside")] == []


def test_what_is_wrong_is_said_as_without_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(beside, "LARGE_BYTES", 0)
    with pytest.raises(EnvironmentFailure, match="broker 2"):
        read(tmp_path / "log", [ReplicaSource(2, tmp_path / "nowhere")])
    assert "EnvironmentFailure" in capfd.readouterr().err  # of the process
    assert list(tmp_path.glob("*.unnumbered")) == []


def test_an_error_beside_it_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "LARGE_BYTES", 0)
    with (
        pytest.raises(ZeroDivisionError),
        capturing(1, [ReplicaSource(1, DATA)], {}, tmp_path / "log", TOPICS, {}),
    ):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


PARENT = """
import multiprocessing, os, signal
from harness.witness.beside import end_with_parent

def child(started):
    end_with_parent()
    started.set()
    multiprocessing.Event().wait()

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    started = spawn.Event()
    process = spawn.Process(target=child, args=(started,))
    process.start()
    assert started.wait(30)
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_process_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    told = subprocess.run(
        [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert told.returncode == -signal.SIGKILL
    pid = int(told.stdout)
    wait_for(lambda: gone(pid), f"process {pid} to end", 10.0)


def gone(pid: int) -> bool:
    """Whether it has ended, though nobody has asked for its status."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
