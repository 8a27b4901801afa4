"""`make` before anything is installed: which Python versions it accepts, and that it replaces an incomplete .venv."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
FILES = (
    "Makefile",
    "pyproject.toml",
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-build.lock",
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the files that `make setup` needs, and with a space in its name."""
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    return folder


def python(path: Path, *, status: int, calls: Path) -> Path:
    """Write a script that replaces Python: it appends its arguments to the file `calls`, and ends with `status`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$0 $*" >>"{calls}"\nexit {status}\n')
    path.chmod(0o755)
    return path


def make(clone: Path, target: str, chosen: Path | str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-C", str(clone), target, f"PYTHON={chosen}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_python_that_is_too_new_is_refused_in_one_sentence(clone: Path, tmp_path: Path) -> None:
    too_new = python(tmp_path / "python", status=1, calls=tmp_path / "calls")
    done = make(clone, "setup", too_new)
    assert done.returncode == 2
    assert done.stderr.startswith("requirements.lock is for Python 3.11, 3.12 or 3.13, and ")
    assert not (clone / ".venv").exists()


def test_python_3_11_to_3_13_are_accepted(clone: Path) -> None:
    (condition,) = {
        line.partition("sys.exit(")[2].partition(")'")[0]
        for line in (clone / "Makefile").read_text().splitlines()
        if "sys.exit(" in line
    }
    accepted = [
        minor for minor in range(9, 17) if not eval(condition.replace("sys.version_info", f"(3, {minor})"))
    ]
    assert accepted == [11, 12, 13]


def test_an_incomplete_environment_is_made_again(clone: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    python(clone / ".venv" / "bin" / "python", status=1, calls=calls)  # it has no pip
    done = make(clone, "setup", python(tmp_path / "python", status=0, calls=calls))
    assert "-m venv --clear .venv" in calls.read_text()
    assert done.returncode == 2, "the new environment has no pip either"
    assert not (clone / ".venv" / "ready").exists(), "nothing was installed"


def test_make_demo_installs_no_tools_of_developers(clone: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    python(clone / ".venv" / "bin" / "python", status=0, calls=calls)
    chosen = python(tmp_path / "python", status=0, calls=calls)
    assert make(clone, "setup", chosen).returncode == 0
    assert "requirements-build.lock" in calls.read_text() and "requirements.lock" in calls.read_text()
    assert "requirements-dev.lock" not in calls.read_text()
    assert make(clone, "setup-dev", chosen).returncode == 0
    assert "requirements-dev.lock" in calls.read_text()
