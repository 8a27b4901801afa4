"""`make`, before anything is installed: which Python it takes, and that a half-made .venv is made again."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = (
    "Makefile",
    "pyproject.toml",
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-build.lock",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder to set up in, and beside it a Python that only writes down what it is asked."""
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    return folder


def python(path: Path, *, status: int, asked: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$0 $*" >>"{asked}"\nexit {status}\n')
    path.chmod(0o755)
    return path


def make(place: Path, target: str, chosen: Path | str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-C", str(place), target, f"PYTHON={chosen}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_python_that_is_too_new_is_refused_in_one_sentence(place: Path, tmp_path: Path) -> None:
    too_new = python(tmp_path / "python", status=1, asked=tmp_path / "asked")
    done = make(place, "setup", too_new)
    assert done.returncode == 2
    assert done.stderr.startswith("requirements.lock is for Python 3.11, 3.12 or 3.13, and ")
    assert not (place / ".venv").exists()


def test_the_versions_that_are_taken(place: Path) -> None:
    (condition,) = {
        line.partition("sys.exit(")[2].partition(")'")[0]
        for line in (place / "Makefile").read_text().splitlines()
        if "sys.exit(" in line
    }
    taken = [
        minor for minor in range(9, 17) if not eval(condition.replace("sys.version_info", f"(3, {minor})"))
    ]
    assert taken == [11, 12, 13]


def test_a_half_made_environment_is_made_again(place: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    python(place / ".venv" / "bin" / "python", status=1, asked=asked)  # it has no pip
    make(place, "setup", python(tmp_path / "python", status=0, asked=asked))
    assert "-m venv --clear .venv" in asked.read_text()
    assert not (place / ".venv" / "ready").exists(), "nothing was installed"


def test_a_demo_installs_no_tools_of_developers(place: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    python(place / ".venv" / "bin" / "python", status=0, asked=asked)
    chosen = python(tmp_path / "python", status=0, asked=asked)
    assert make(place, "setup", chosen).returncode == 0
    assert "requirements-build.lock" in asked.read_text() and "requirements.lock" in asked.read_text()
    assert "requirements-dev.lock" not in asked.read_text()
    assert make(place, "setup-dev", chosen).returncode == 0
    assert "requirements-dev.lock" in asked.read_text()
