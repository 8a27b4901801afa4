"""The wheel of this repository, and environments that have it installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("harness", "workloads", "nemeses", "checkers", "reports")
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "fencepost", *ROOMS)


def run_isolated(
    *words: object, cwd: Path, timeout_s: float = 1500, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that does not see this repository.

    Args:
        words: The command and its arguments.
        cwd: The folder that it runs in.
        timeout_s: Seconds after which it is killed.
        path: A folder from which the command and its children import first.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment if path is None else {**environment, "PYTHONPATH": str(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def output_of(process: subprocess.CompletedProcess[str]) -> str:
    """Return the output of a command. Fail the test if the command failed."""
    assert process.returncode == 0, process.stdout[-4000:]
    return process.stdout


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the repository, so that no build files are left in it."""
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    output_of(run_isolated(sys.executable, "-P", "-m", "pip", "wheel", *options, source, cwd=folder))
    (built,) = folder.glob("*.whl")
    return built


def make_user_project(folder: Path) -> Path:
    """Make a user's project whose packages have the same names as Fencepost's, with a test that uses both."""
    for name in ROOMS:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"OWNER = 'the user of {name}'\n")
    (folder / "test_team.py").write_text(
        """
import fencepost as library
import pytest
import reports, workloads

@pytest.mark.fencepost(time_limit=12, seed=1, nemesis="kill-worker")
def test_the_shop(fencepost):
    assert workloads.OWNER == "the user of workloads" and reports.OWNER == "the user of reports"
    result = fencepost()
    assert result.report and "</html>" in result.report.read_text()
    (again,) = library.check(result.folder)
    assert again.verdict["valid"] == result.verdict["valid"]
    result.assert_valid()
"""
    )
    return folder
