"""`--set` and `--name` replace the options and the name of a suite file."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.cli import run_command_line
from fencepost.commands.options import settle
from fencepost.suites import plan, run
from fencepost.suites.plan import SuitePlan, SuiteRequest
from harness.common.errors import ExitStatus, UsageError
from harness.results.suite import Suite
from harness.settings.options import parse_set

BROKER = 'broker = {"a.b" = "1", "c.d" = "2"}'
FILE = f'[suite]\nseed = 1\n[defaults]\ntime_limit = 40\n{BROKER}\n[matrix]\nworkload = ["echo"]\n'


def plan_of(tmp_path: Path, *sets: str, text: str = FILE, name: str | None = None) -> SuitePlan:
    file = tmp_path / "night.toml"
    file.write_text(text)
    return plan.load(
        file, SuiteRequest(settle, name=name, sets=[parse_set(assignment) for assignment in sets])
    )


def test_a_set_option_replaces_that_of_the_file_and_is_not_in_a_name(tmp_path: Path) -> None:
    plan_ = plan_of(tmp_path, "kafka=4.1.2", "time-limit=20", "workers=2", "workers=4")
    (cell,) = plan_.suite.cells
    assert cell.name == plan_of(tmp_path).suite.cells[0].name
    assert (cell.kafka, cell.options["time-limit"], cell.options["workers"]) == ("4.1.2", 20.0, 4)
    assert "--kafka 4.1.2" in cell.command


def test_set_broker_settings_are_added_to_those_of_the_file(tmp_path: Path) -> None:
    (cell,) = plan_of(tmp_path, "broker.c.d=3", "broker.e.f=4").suite.cells
    assert cell.options["broker"] == {"a.b": "1", "c.d": "3", "e.f": "4"}


@pytest.mark.parametrize(
    ("faults", "nemesis"),
    [("kill-broker,kill-worker", "kill-broker,kill-worker"), ("drawn", "drawn"), ("none", "none")],
)
def test_set_accepts_the_same_faults_as_a_file(tmp_path: Path, faults: str, nemesis: str) -> None:
    assert plan_of(tmp_path, f"nemesis={faults}").suite.cells[0].nemesis == nemesis


def test_a_name_on_the_command_line_replaces_that_of_the_file(tmp_path: Path) -> None:
    assert plan_of(tmp_path, name="night-4-1-2").suite.name == "night-4-1-2"
    with pytest.raises(UsageError, match="name must be"):
        plan_of(tmp_path, name="a/b")


@pytest.mark.parametrize(
    ("text", "assignment", "message"),
    [
        ("", "workload=shop", "workload is set twice, by --set and by matrix"),
        ("[[include]]\nworkers = 2\n", "workers=3", "workers is set twice, by --set and by include 1"),
        ("[[include]]\ngroup_protocol = 'classic'\n", "group-protocol=consumer", "by --set and by include 1"),
        ("", "store=x", "store cannot be set for a cell"),
        ("", "spark.x=1", "with --spark-conf"),
        ("", "kafka=9.9.9", 'no Kafka version "9.9.9"'),
    ],
)
def test_an_option_that_cannot_be_set_is_refused(
    tmp_path: Path, text: str, assignment: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(tmp_path, assignment, text=FILE + text)


@pytest.fixture
def started_suites(monkeypatch: pytest.MonkeyPatch) -> list[Suite]:
    """The suites that would run. No suite runs."""
    started: list[Suite] = []

    class NothingRuns:
        def __init__(self, record: Any, plan: SuitePlan, settings: Any, progress: Any) -> None:
            started.append(record.suite)
            self._plan = plan

        def run(self) -> Suite:
            return self._plan.suite

    monkeypatch.setattr(run, "SuiteRun", NothingRuns)
    return started


def suite(tmp_path: Path, *arguments: str) -> int:
    (tmp_path / "night.toml").write_text(FILE)
    return run_command_line(["suite", "--store", str(tmp_path / "store"), *arguments])


def test_a_resumed_suite_keeps_its_name_and_its_set_options(
    tmp_path: Path, started_suites: list[Suite]
) -> None:
    file, resume = str(tmp_path / "night.toml"), ("--resume", str(tmp_path / "store" / "other" / "latest"))
    suite(tmp_path, file, "--set", "workers=2", "--name", "other")
    suite(tmp_path, *resume)
    suite(tmp_path, file, *resume, "--set", "workers=2")
    suite(tmp_path, file, *resume)
    assert [suite.name for suite in started_suites] == ["other"] * 4
    assert [suite.cells[0].options["workers"] for suite in started_suites] == [2] * 4
    assert suite(tmp_path, file, *resume, "--set", "workers=4") == ExitStatus.USAGE
    assert len(started_suites) == 4


def test_a_secret_in_set_must_be_set_again(
    tmp_path: Path, started_suites: list[Suite], capfd: pytest.CaptureFixture[str]
) -> None:
    file, resume = str(tmp_path / "night.toml"), ("--resume", str(tmp_path / "store" / "night" / "latest"))
    secret = ("--set", "broker.ssl.keystore.password=hunter2")
    suite(tmp_path, file, *secret, "--set", "workers=2")
    assert "hunter2" not in (tmp_path / "store" / "night" / "latest" / "suite.json").read_text()
    assert suite(tmp_path, file, *resume) == ExitStatus.USAGE
    assert "a secret in --set broker.ssl.keystore.password, which is not stored" in capfd.readouterr().err
    suite(tmp_path, file, *resume, *secret)
    assert [suite.cells[0].options["workers"] for suite in started_suites] == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--resume", "x", "--name", "y"),
            "a resumed suite keeps its name: leave out --name, or begin a new suite without --resume",
        ),
        (
            ("--resume", "x", "--set", "workers=2"),
            "a resumed suite keeps its options: leave out --set, or name the suite file as well",
        ),
        (("night.toml", "--set", "worker=2"), 'did you mean "workers"'),
        (("night.toml", "--set", "workers"), "must be KEY=VALUE"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["suite", *arguments]) == ExitStatus.USAGE
    err = capfd.readouterr().err
    assert message in err and err.count("\n") == 1
