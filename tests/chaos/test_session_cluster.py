"""The fixture `fencepost_cluster` on a real cluster: in a whole session, and in a session that is killed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.common.waiting import wait_for
from harness.environment.versions import DEFAULT_KAFKA
from harness.processes.guardian import marked_processes

TWO_TESTS = """
import pathlib, pytest

pytestmark = pytest.mark.fencepost(workload="echo", time_limit=12, rate=100, abort_share=0.1)

def test_correct(fencepost, fencepost_cluster):
    result = fencepost(nemesis="kill-worker")
    pathlib.Path("correct").write_text(fencepost_cluster.bootstrap)
    result.assert_valid()

def test_wrong(fencepost, fencepost_cluster):
    pathlib.Path("wrong").write_text(fencepost_cluster.bootstrap)
    fencepost(defect="offsets-outside-transaction").assert_valid()
"""
HANGING_TEST = """
import pathlib, threading

def test_hangs(fencepost_cluster):
    pathlib.Path("up").touch()
    threading.Event().wait()
"""


@contextmanager
def session(folder: Path, tests: str) -> Iterator["subprocess.Popen[str]"]:
    """Start pytest in another process and folder, as a team does."""
    (folder / "test_shop.py").write_text(tests)
    words = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "--fencepost-seed", "7"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        yield process


def brokers() -> set[int]:
    """Return the pids of all brokers of runs on this machine."""
    return {process.pid for process, _ in marked_processes() if "java" in process.name()}


@pytest.mark.timeout(600)
def test_a_correct_and_a_wrong_pipeline_share_a_cluster(tmp_path: Path) -> None:
    before = brokers()
    with session(tmp_path, TWO_TESTS) as process:
        output, _ = process.communicate()
    assert "1 failed, 1 passed" in output, output
    assert (tmp_path / "correct").read_text() == (tmp_path / "wrong").read_text()
    counts = r"^E +(lost-input|reprocessed-input|offset-output-mismatch): \d+"
    reported = re.search(r"^E +AssertionError: invalid: ", output, re.M) and re.search(counts, output, re.M)
    assert reported, output
    for line in (
        r"^E +first: .+",
        r"^E +report: .+report\.html$",
        r"^repeat the test: pytest .+--fencepost-seed 7",
    ):
        assert re.search(line, output, re.M), output
    (repeat,) = re.findall(r"^E +repeat: (.+)$", output, re.M)
    assert "--cluster" not in repeat and "bootstrap" not in repeat and f"--kafka {DEFAULT_KAFKA}" in repeat
    assert "Traceback" not in output and "api.py" not in output and "pytest_plugin.py" not in output
    wait_for(lambda: brokers() <= before, "the session's cluster to be gone", 30.0)


@pytest.mark.timeout(300)
def test_a_killed_session_leaves_no_cluster(tmp_path: Path) -> None:
    before = brokers()
    with session(tmp_path, HANGING_TEST) as process:
        wait_for((tmp_path / "up").exists, "the cluster", 120.0, last_seen=process.poll)
        assert len(brokers() - before) == 3
        os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: brokers() <= before, "the session's cluster to be gone", 60.0)
