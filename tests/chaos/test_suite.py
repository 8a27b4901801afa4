"""A suite on real clusters is killed. Finished runs are kept, the current run starts again, and all are checked."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import DEFAULT_COMMAND
from harness.common.errors import ExitStatus
from harness.common.waiting import wait_for
from harness.processes.guardian import is_abandoned, marked_processes

SUITE = """
[suite]
name = "night"
seed = 7

[defaults]
time-limit = 12
rate = 100
abort-share = 0.1

[matrix]
workload = "echo"
nemesis = ["kill-worker", "none"]

[[include]]
workload = "echo"
defect = "offsets-outside-transaction"

[[expected]]
workload = "echo"
defect = "offsets-outside-transaction"
anomaly = ["reprocessed-input", "offset-output-mismatch", "lost-input"]
why = "planted"
"""


def states(folder: Path) -> dict[str, str]:
    cells = json.loads((folder / "suite.json").read_text())["cells"]
    return {cell["name"]: cell["state"] for cell in cells}


@pytest.mark.timeout(900)
def test_a_killed_suite_continues_where_it_stopped(tmp_path: Path) -> None:
    (file := tmp_path / "night.toml").write_text(SUITE)
    store = tmp_path / "store"
    command = [*DEFAULT_COMMAND, "suite", "--jobs", "1"]
    with subprocess.Popen([*command, str(file), "--store", str(store)]) as suite:
        latest = store / "night" / "latest"
        wait_for(
            lambda: (latest / "suite.json").exists() and "not checked" in states(latest).values(),
            "the first run to be over",
            300.0,
            last_seen=suite.poll,
        )
        wait_for(
            lambda: list(latest.glob("runs/002-*/*/journals/*.jsonl")), "the second run to have begun", 120.0
        )
        os.kill(suite.pid, signal.SIGKILL)
    wait_for(
        lambda: not any(is_abandoned(mark) for _, mark in marked_processes()),
        "its processes to be gone",
        30.0,
    )
    (first,) = latest.glob("runs/001-*/2*")
    before = (first / "metadata.json").stat().st_mtime_ns

    done = subprocess.run([*command, "--json", "--resume", str(latest)], stdout=subprocess.PIPE, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    assert states(latest) == {
        "echo librdkafka kill-worker": "valid",
        "echo librdkafka none": "valid",
        "echo librdkafka drawn defect=offsets-outside-transaction": "caught",
    }
    assert done.returncode == ExitStatus.VALID == document["exit_status"]
    assert (first / "metadata.json").stat().st_mtime_ns == before
    assert len(list(latest.glob("runs/0*/2*"))) == 3
    assert len(list(latest.glob("runs/0*/2*/report.html"))) == 3
    assert {"index.html", "junit.xml", "summary.md"} <= {path.name for path in latest.iterdir()}
