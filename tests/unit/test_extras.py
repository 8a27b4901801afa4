"""The extras: a feature that needs one names it, and no other feature needs it."""

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from harness.common.documents import parse_toml
from harness.common.errors import EXTRAS, EnvironmentFailure, require_extra
from harness.environment.doctor import examine

pytestmark = pytest.mark.processes

PROJECT = parse_toml((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
COMMAND_WITHOUT_EXTRAS = f"""
import sys
for module in {tuple(EXTRAS)!r}:
    sys.modules[module] = None  # as if it were not installed
from fencepost.cli import run_command_line
sys.exit(run_command_line(sys.argv[1:]))
"""


def without_extras(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as in an installation without extras."""
    words = [sys.executable, "-P", "-c", COMMAND_WITHOUT_EXTRAS, *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def test_the_extra_that_a_message_names_installs_the_module() -> None:
    packages = packages_distributions()
    for module, extra in EXTRAS.items():
        installed = {Requirement(line).name for line in PROJECT["optional-dependencies"][extra]}
        assert installed & {name.lower() for name in packages[module]}, module


@pytest.mark.parametrize("module", EXTRAS)
def test_the_message_about_a_missing_module_names_its_extra(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        EnvironmentFailure, match=rf"the feature needs .* {module}.*'fencepost\[{EXTRAS[module]}\]'"
    ):
        require_extra("the feature", module)


@pytest.mark.parametrize(
    ("options", "extra"),
    [
        (("--cluster", "docker"), "docker"),
        (("--client", "java"), "java"),
        (("--workload", "outbox"), "postgres"),
        (("--workload", "outbox", "--set", "postgres=bundled"), "postgres"),
    ],
)
def test_a_run_without_its_extra_ends_with_status_4_and_names_the_extra(
    options: tuple[str, ...], extra: str, tmp_path: Path
) -> None:
    ended = without_extras(tmp_path, "run", *options, "--time-limit", "10")
    assert ended.returncode == 4
    assert ended.stderr.splitlines()[-1].endswith(f"pip install 'fencepost[{extra}]'")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "arguments", [("list", "workloads"), ("list", "defects"), ("run", "--help"), ("list", "anomalies")]
)
def test_a_command_that_needs_no_extra_works_without_extras(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    ended = without_extras(tmp_path, *arguments)
    assert ended.returncode == 0, ended.stderr


def test_the_doctor_names_missing_extras_and_reports_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in EXTRAS:
        monkeypatch.setitem(sys.modules, module, None)
    parts = {part.name: part for part in examine(tmp_path)}
    for name, extra in {"Docker": "docker", "Java client": "java", "PostgreSQL": "postgres"}.items():
        assert parts[name].ok and f"'fencepost[{extra}]'" in parts[name].advice
