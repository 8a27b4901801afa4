"""Skipped tests: a required need makes a skip a failure, and a test run ends with a count of its skips."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import BROWSERS, browser_path

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", BROWSERS)
def test_chromium_is_found_under_each_of_its_names(name: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert browser_path() == str(tmp_path / name)


@pytest.mark.processes
@pytest.mark.parametrize(("required", "status"), [("", 0), ("jdk", 0), ("jdk,browser", 1)])
def test_a_test_whose_need_is_required_fails_instead_of_being_skipped(
    required: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(
        "from tests.support.needs import skip_or_fail\ndef test_it():\n    skip_or_fail('browser', 'there is none')\n"
    )
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "tests.conftest", "-c", os.devnull]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", str(tmp_path / "test_it.py")],
        env={**os.environ, "FENCEPOST_REQUIRE": required, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert (last == "not tested: 1 (browser: there is none)") is (status == 0)
