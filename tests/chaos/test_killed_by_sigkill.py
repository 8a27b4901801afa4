"""A run that is killed by SIGKILL leaves no processes, and its recorded evidence is checked."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.started_runs import has_commits, start_run

OPTIONS = ("--nemesis", "none", "--time-limit", "60", "--seed", "3", "--name", "ended")


def check(store: Path) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fencepost", "check", "--json", str(store)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_a_run_killed_by_sigkill_leaves_nothing_behind_and_is_checked(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with start_run(tmp_path / "log", *OPTIONS, "--store", str(store)) as run:
        run.await_output(has_commits, "transactions to be committed")
        run.signal(signal.SIGKILL)
        run.process.wait()
        run.await_no_leftovers()
    status, verdict = check(store)
    assert status == 3
    assert verdict["valid"] == "unknown"
    assert any(reason["code"] == "run-killed" for reason in verdict["unknown_because"])  # type: ignore[attr-defined]
    assert verdict["coverage"]["committed"] > 0  # type: ignore[index]
    assert not verdict["anomalies"]
