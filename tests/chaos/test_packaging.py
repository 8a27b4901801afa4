"""The wheel as a team installs it: with the lowest and with the newest dependencies, outside the repository.

Also the plugin without its dependencies, which calls the command of another environment.
"""

import sys
from pathlib import Path

import pytest

from tests.support.built_wheel import ROOT, build_wheel, make_user_project, output_of, run_isolated

pytestmark = [pytest.mark.spark]

TEST_PACKAGES = ("pytest-timeout", "pytest-xdist", "hypothesis", "duckdb", "setuptools>=84")
LOWEST_PYTEST = "pytest==8.4.2"
CONSTRAINTS = {
    "lowest": ("-c", str(ROOT / "requirements-lowest.txt"), LOWEST_PYTEST),
    "newest": ("--upgrade",),
}


def environment(folder: Path, *packages: object) -> Path:
    """Make a virtual environment with these packages, and return its `bin`."""
    output_of(run_isolated(sys.executable, "-m", "venv", folder, cwd=folder.parent))
    output_of(run_isolated(folder / "bin" / "pip", "install", "--quiet", *packages, cwd=folder.parent))
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=CONSTRAINTS)
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the lowest or the newest versions."""
    folder = tmp_path_factory.mktemp(request.param) / "environment"
    return environment(folder, f"{wheel}[all]", *TEST_PACKAGES, *CONSTRAINTS[request.param])


def test_the_wheel_has_all_files_that_the_commands_need(installed: Path, tmp_path: Path) -> None:
    assert "shop" in output_of(run_isolated(installed / "fencepost", "list", "workloads", cwd=tmp_path))
    assert "Kafka" in run_isolated(installed / "fencepost", "doctor", cwd=tmp_path).stdout
    # The oldest Kafka needs the most files. The test of the plugin runs the newest Kafka.
    words = ("run", "--kafka", "3.9.2", "--time-limit", "15", "--seed", "1")
    output = output_of(run_isolated(installed / "fencepost", *words, cwd=tmp_path))
    assert "verdict  valid" in output
    (report,) = tmp_path.glob("store/shop/2*/report.html")
    assert "</html>" in report.read_text()


def test_the_unit_tests_pass_with_lowest_and_newest_dependencies(installed: Path, tmp_path: Path) -> None:
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
    output_of(
        run_isolated(installed / "python", *words, cwd=ROOT, path=ROOT)
    )  # processes that a test starts use the same code


def test_a_plugin_without_dependencies_calls_the_command_elsewhere(
    installed: Path, wheel: Path, tmp_path: Path
) -> None:
    team = environment(tmp_path / "environment", "pytest>=8.4.2")
    output_of(run_isolated(team / "pip", "install", "--quiet", "--no-deps", wheel, cwd=tmp_path))
    folder = make_user_project(tmp_path / "team")
    command = f"--fencepost-command={installed / 'fencepost'}"
    assert "1 passed" in output_of(run_isolated(team / "pytest", command, "test_team.py", cwd=folder))


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment without extras except pytest."""
    return environment(tmp_path_factory.mktemp("plain") / "environment", f"{wheel}[pytest]")


def test_a_plain_installation_works_in_a_project_with_packages_named_like_ours(
    plain: Path, tmp_path: Path
) -> None:
    folder = make_user_project(tmp_path / "team")
    output_of(run_isolated(plain / "fencepost", "doctor", cwd=folder))
    # No fault kills a group coordinator, because the newest librdkafka may then wait for ever (#5511).
    words = ("run", "--time-limit", "20", "--seed", "1", "--nemesis", "kill-worker,pause-worker")
    output = output_of(run_isolated(plain / "fencepost", *words, cwd=folder))
    assert "verdict  valid" in output
    assert "valid" in output_of(run_isolated(plain / "fencepost", "check", "store/latest", cwd=folder))
    assert "1 passed" in output_of(run_isolated(plain / "pytest", "test_team.py", cwd=folder))


@pytest.mark.parametrize(
    ("options", "extra"),
    [
        (("--cluster", "docker"), "docker"),
        (("--client", "java"), "java"),
        (("--workload", "outbox"), "postgres"),
    ],
)
def test_a_plain_installation_names_the_extra_that_an_option_needs(
    plain: Path, options: tuple[str, str], extra: str, tmp_path: Path
) -> None:
    ended = run_isolated(plain / "fencepost", "run", *options, "--time-limit", "10", cwd=tmp_path)
    assert ended.returncode == 4
    assert f"pip install 'fencepost[{extra}]'" in ended.stdout
    assert (
        f"pip install 'fencepost[{extra}]'"
        in run_isolated(plain / "fencepost", "doctor", cwd=tmp_path).stdout
    )
