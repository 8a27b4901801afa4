"""The wheel, installed as a team installs it: with the lowest and with the newest versions of all that it needs,
outside the repository; and as a plugin without its dependencies that calls another environment's command.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark]

ROOT = Path(__file__).parents[2]
TESTS = ("pytest>=8.4.2", "pytest-timeout", "pytest-xdist", "hypothesis", "duckdb")
LOWEST_PYTEST = "pytest==8.4.2"
ROOMS = ("fencepost", "harness", "workloads", "pipelines", "nemeses", "checkers", "reports")
SOURCES = ("pyproject.toml", "README.md", "LICENSE", *ROOMS)
CONSTRAINTS = {
    "lowest": ("-c", str(ROOT / "requirements-lowest.txt"), LOWEST_PYTEST),
    "newest": ("--upgrade",),
}


def call(
    *words: object, cwd: Path, timeout_s: float = 1500, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that sees nothing of this repository. `path`: from where it and what it starts import first."""
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


def done(told: subprocess.CompletedProcess[str]) -> str:
    assert told.returncode == 0, told.stdout[-4000:]
    return told.stdout


def environment(place: Path, *packages: object) -> Path:
    """The `bin` of a new virtual environment with these packages."""
    done(call(sys.executable, "-m", "venv", place, cwd=place.parent))
    done(call(place / "bin" / "pip", "install", "--quiet", *packages, cwd=place.parent))
    return place / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the repository."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)  # type: ignore[operator]
    done(call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", place, source, cwd=place))
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=CONSTRAINTS)
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment at one end of the ranges."""
    place = tmp_path_factory.mktemp(request.param) / "environment"
    return environment(place, wheel, *TESTS, *CONSTRAINTS[request.param])


def test_the_wheel_holds_all_that_the_commands_need(installed: Path, tmp_path: Path) -> None:
    assert "shop" in done(call(installed / "fencepost", "list", "workloads", cwd=tmp_path))
    assert "Kafka" in call(installed / "fencepost", "doctor", cwd=tmp_path).stdout
    # The oldest Kafka needs the most files; the newest is run by the test of the plugin.
    words = ("run", "--kafka", "3.9.2", "--time-limit", "15", "--seed", "1")
    said = done(call(installed / "fencepost", *words, cwd=tmp_path))
    assert "verdict  valid" in said
    (report,) = tmp_path.glob("store/shop/2*/report.html")
    assert "</html>" in report.read_text()


def test_the_unit_tests_pass_at_both_ends(installed: Path, tmp_path: Path) -> None:
    words = (
        "-P",
        "-m",
        "pytest",
        "-q",
        "-m",
        "not spark",
        "-p",
        "no:cacheprovider",
        f"--rootdir={ROOT}",
        "tests/unit",
    )
    done(call(installed / "python", *words, cwd=ROOT, path=ROOT))  # what a test starts is the same code


TEAM = """
import pytest

@pytest.mark.fencepost(time_limit=15, seed=1)
def test_the_shop(fencepost):
    fencepost(nemesis="none").assert_valid()
"""


def test_a_plugin_without_its_dependencies_calls_another_environments_command(
    installed: Path, wheel: Path, tmp_path: Path
) -> None:
    team = environment(tmp_path / "team", "pytest>=8.4.2")
    done(call(team / "pip", "install", "--quiet", "--no-deps", wheel, cwd=tmp_path))
    (tmp_path / "test_team.py").write_text(TEAM)
    assert "1 passed" in done(
        call(team / "pytest", f"--fencepost-command={installed / 'fencepost'}", "test_team.py", cwd=tmp_path)
    )
