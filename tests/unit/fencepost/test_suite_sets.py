"""What the command line says in the place of a suite file: options of every run, and the suite's name."""

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


def planned(tmp_path: Path, *sets: str, text: str = FILE, name: str | None = None) -> SuitePlan:
    file = tmp_path / "night.toml"
    file.write_text(text)
    return plan.load(file, SuiteRequest(settle, name=name, sets=[parse_set(one) for one in sets]))


def test_an_option_replaces_the_files_and_is_no_part_of_a_name(tmp_path: Path) -> None:
    made = planned(tmp_path, "kafka=4.1.2", "time-limit=20", "workers=2", "workers=4")
    (cell,) = made.suite.cells
    assert cell.name == planned(tmp_path).suite.cells[0].name
    assert (cell.kafka, cell.options["time-limit"], cell.options["workers"]) == ("4.1.2", 20.0, 4)
    assert "--kafka 4.1.2" in cell.command


def test_settings_of_the_brokers_come_beside_the_files(tmp_path: Path) -> None:
    (cell,) = planned(tmp_path, "broker.c.d=3", "broker.e.f=4").suite.cells
    assert cell.options["broker"] == {"a.b": "1", "c.d": "3", "e.f": "4"}


@pytest.mark.parametrize(
    ("words", "nemesis"),
    [("kill-broker,kill-worker", "kill-broker,kill-worker"), ("drawn", "drawn"), ("none", "none")],
)
def test_faults_are_set_as_a_file_sets_them(tmp_path: Path, words: str, nemesis: str) -> None:
    assert planned(tmp_path, f"nemesis={words}").suite.cells[0].nemesis == nemesis


def test_a_name_replaces_the_files(tmp_path: Path) -> None:
    assert planned(tmp_path, name="night-4-1-2").suite.name == "night-4-1-2"
    with pytest.raises(UsageError, match="name must be"):
        planned(tmp_path, name="a/b")


@pytest.mark.parametrize(
    ("more", "one", "words"),
    [
        ("", "workload=shop", "workload is set twice, by --set and by matrix"),
        ("[[include]]\nworkers = 2\n", "workers=3", "workers is set twice, by --set and by include 1"),
        ("[[include]]\ngroup_protocol = 'classic'\n", "group-protocol=consumer", "by --set and by include 1"),
        ("", "store=x", "store cannot be set for a cell"),
        ("", "spark.x=1", "with --spark-conf"),
        ("", "kafka=9.9.9", 'no Kafka version "9.9.9"'),
    ],
)
def test_what_cannot_be_set_is_refused(tmp_path: Path, more: str, one: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        planned(tmp_path, one, text=FILE + more)


@pytest.fixture
def carried_out(monkeypatch: pytest.MonkeyPatch) -> list[Suite]:
    """The suites that were to be carried out; none is."""
    found: list[Suite] = []

    class NothingRuns:
        def __init__(self, record: Any, plan: SuitePlan, settings: Any, progress: Any) -> None:
            found.append(record.suite)
            self._plan = plan

        def run(self) -> Suite:
            return self._plan.suite

    monkeypatch.setattr(run, "SuiteRun", NothingRuns)
    return found


def suite(tmp_path: Path, *words: str) -> int:
    (tmp_path / "night.toml").write_text(FILE)
    return run_command_line(["suite", "--store", str(tmp_path / "store"), *words])


def test_a_suite_goes_on_with_what_it_began_with(tmp_path: Path, carried_out: list[Suite]) -> None:
    file, resume = str(tmp_path / "night.toml"), ("--resume", str(tmp_path / "store" / "other" / "latest"))
    suite(tmp_path, file, "--set", "workers=2", "--name", "other")
    suite(tmp_path, *resume)
    suite(tmp_path, file, *resume, "--set", "workers=2")
    suite(tmp_path, file, *resume)
    assert [one.name for one in carried_out] == ["other"] * 4
    assert [one.cells[0].options["workers"] for one in carried_out] == [2] * 4
    assert suite(tmp_path, file, *resume, "--set", "workers=4") == ExitStatus.USAGE
    assert len(carried_out) == 4


def test_a_secret_that_was_set_is_set_again(
    tmp_path: Path, carried_out: list[Suite], capfd: pytest.CaptureFixture[str]
) -> None:
    file, resume = str(tmp_path / "night.toml"), ("--resume", str(tmp_path / "store" / "night" / "latest"))
    secret = ("--set", "broker.ssl.keystore.password=hunter2")
    suite(tmp_path, file, *secret, "--set", "workers=2")
    assert "hunter2" not in (tmp_path / "store" / "night" / "latest" / "suite.json").read_text()
    assert suite(tmp_path, file, *resume) == ExitStatus.USAGE
    assert "a secret in --set broker.ssl.keystore.password, which is not stored" in capfd.readouterr().err
    suite(tmp_path, file, *resume, *secret)
    assert [one.cells[0].options["workers"] for one in carried_out] == [2, 2]


@pytest.mark.parametrize(
    ("words", "told"),
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
def test_a_command_that_makes_no_sense_is_refused_in_one_sentence(
    words: tuple[str, ...], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["suite", *words]) == ExitStatus.USAGE
    err = capfd.readouterr().err
    assert told in err and err.count("\n") == 1
