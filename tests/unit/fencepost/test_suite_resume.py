"""A resumed suite keeps the settings of the command that began it."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fencepost.cli import run_command_line
from fencepost.commands.options import settle
from fencepost.suites import plan, run
from fencepost.suites.plan import SuitePlan, SuiteRequest, resume
from fencepost.suites.record import lock
from fencepost.suites.run import SuiteSettings
from harness.common.errors import ExitStatus, UsageError
from harness.results.suite import Suite

SECRET_SETTING = "spark.hadoop.fs.s3a.secret.key=abracadabra"


@pytest.fixture
def settings_of_runs(monkeypatch: pytest.MonkeyPatch) -> list[SuiteSettings]:
    """The settings of each suite that would run. No suite runs."""
    recorded: list[SuiteSettings] = []

    class NothingRuns:
        def __init__(self, record: Any, plan: SuitePlan, settings: SuiteSettings, progress: Any) -> None:
            recorded.append(settings)
            self._plan = plan

        def run(self) -> Suite:
            return self._plan.suite

    monkeypatch.setattr(run, "SuiteRun", NothingRuns)
    return recorded


def suite(tmp_path: Path, *arguments: str) -> int:
    (tmp_path / "night.toml").write_text('[matrix]\nworkload = "echo"\n')
    return run_command_line(
        ["suite", str(tmp_path / "night.toml"), "--store", str(tmp_path / "store"), *arguments]
    )


def resumed(tmp_path: Path, *arguments: str) -> int:
    return run_command_line(["suite", "--resume", str(tmp_path / "store" / "night" / "latest"), *arguments])


def test_a_resumed_suite_keeps_its_spark_settings(
    tmp_path: Path, settings_of_runs: list[SuiteSettings]
) -> None:
    suite(tmp_path, "--master", "spark://here:7077", "--spark-conf", "spark.executor.memory=2g")
    resumed(tmp_path)
    resumed(tmp_path, "--master", "local[2]", "--spark-conf", "spark.executor.cores=1")
    resumed(tmp_path)
    masters = ["spark://here:7077", "spark://here:7077", "local[2]", "local[2]"]
    assert [settings.master for settings in settings_of_runs] == masters
    assert [dict(settings.spark_conf) for settings in settings_of_runs] == [
        {"spark.executor.memory": "2g"},
        {"spark.executor.memory": "2g"},
        {"spark.executor.memory": "2g", "spark.executor.cores": "1"},
        {"spark.executor.memory": "2g", "spark.executor.cores": "1"},
    ]


def test_a_secret_spark_setting_is_not_stored_and_must_be_set_again(
    tmp_path: Path, settings_of_runs: list[SuiteSettings], capfd: pytest.CaptureFixture[str]
) -> None:
    suite(tmp_path, "--spark-conf", SECRET_SETTING)
    stored = (tmp_path / "store" / "night" / "latest" / "suite.json").read_text()
    assert "abracadabra" not in stored and json.loads(stored)["spark"]["spark-conf"]
    capfd.readouterr()
    assert resumed(tmp_path) == ExitStatus.USAGE
    error = capfd.readouterr().err
    assert (
        "this suite began with a secret in spark.hadoop.fs.s3a.secret.key" in error and error.count("\n") == 1
    )
    resumed(tmp_path, "--spark-conf", SECRET_SETTING)
    assert [settings.spark_conf for settings in settings_of_runs] == [dict([SECRET_SETTING.split("=")])] * 2


def test_a_suite_that_is_locked_cannot_be_resumed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "suite.json").write_text("another process is writing this file")
    with lock(tmp_path):
        assert run_command_line(["suite", "--resume", str(tmp_path)]) == ExitStatus.USAGE
    assert "this suite is still running" in capfd.readouterr().err
    assert run_command_line(["suite", "--resume", str(tmp_path)]) != ExitStatus.VALID
    assert "still running" not in capfd.readouterr().err


def test_an_error_inside_the_lock_is_not_reported_as_a_held_lock(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), lock(tmp_path):
        raise BlockingIOError


KNOWN = '[[known]]\nworkload = "shop"\nanomaly = "reprocessed-input"\nwhy = "a bug"\nuntil = 2027-01-31\n'
PLANTED = (
    '[[include]]\nworkload = "echo"\ndefect = "no-rewind"\n'
    '[[expected]]\ndefect = "no-rewind"\nanomaly = ["lost-input", "poll-skip"]\nwhy = "planted"\n'
)


def planned(tmp_path: Path, text: str) -> SuitePlan:
    file = tmp_path / "night.toml"
    file.write_text(text)
    return plan.load(file, SuiteRequest(settle))


def resumed_from(tmp_path: Path, stored: Suite, text: str) -> SuitePlan:
    file = tmp_path / "night.toml"
    file.write_text(text)
    return resume(stored, file, SuiteRequest(settle))


def test_a_suite_can_be_resumed_without_its_file(tmp_path: Path) -> None:
    planned_suite = planned(
        tmp_path, f'[matrix]\nworkload = ["shop"]\nnemesis = ["drawn", "none"]\n{KNOWN}{PLANTED}'
    )
    planned_suite.suite.save(tmp_path)
    plan_ = resume(Suite.load(tmp_path), None, SuiteRequest(settle))
    assert plan_.options == planned_suite.options
    assert plan_.failures == planned_suite.failures
    assert plan_.failures.expected[0].anomalies == ("lost-input", "poll-skip")
    assert [cell.name for cell in plan_.suite.cells] == [cell.name for cell in planned_suite.suite.cells]


def test_secrets_in_the_file_are_not_stored_and_the_file_is_needed_again(tmp_path: Path) -> None:
    text = '[suite]\nseed = 1\n[defaults]\nmirror = "https://me:hush@host/maven"\n[matrix]\nworkload = "echo"'
    planned_suite = planned(tmp_path, text)
    planned_suite.suite.save(tmp_path)
    assert "hush" not in (tmp_path / "suite.json").read_text()
    assert planned_suite.options["echo librdkafka drawn"].mirror == "https://me:hush@host/maven"
    stored = Suite.load(tmp_path)
    with pytest.raises(UsageError, match="name the suite file as well"):
        resume(stored, None, SuiteRequest(settle))
    assert resumed_from(tmp_path, stored, text).options == planned_suite.options


def test_an_unchanged_file_gives_the_same_cells(tmp_path: Path) -> None:
    text = '[suite]\nseed = 1\n[matrix]\nworkload = ["echo"]'
    stored = planned(tmp_path, text).suite
    assert resumed_from(tmp_path, stored, text).suite.cells == stored.cells


@pytest.mark.parametrize(
    ("before", "now", "difference"),
    [
        ('["echo"]', '["echo", "shop"]', 'the cell "shop librdkafka drawn" is new'),
        ('["echo", "shop"]', '["echo"]', 'there is no cell "shop librdkafka drawn" any more'),
        ("workers = 1", "workers = 2", 'workers of the cell "echo librdkafka drawn" was 1, and is 2 now'),
    ],
)
def test_the_first_difference_of_a_changed_file_is_named(
    before: str, now: str, difference: str, tmp_path: Path
) -> None:
    text = '[suite]\nseed = 1\n[defaults]\nworkers = 1\n[matrix]\nworkload = ["echo"]\n'.replace(
        '["echo"]', before if "echo" in before else '["echo"]'
    )
    stored = planned(tmp_path, text).suite
    with pytest.raises(UsageError, match=difference):
        resumed_from(tmp_path, stored, text.replace(before, now))


def test_a_resumed_suite_keeps_its_check_time_unless_the_flag_changes_it(tmp_path: Path) -> None:
    text = '[matrix]\nworkload = "echo"\n'
    stored = planned(tmp_path, text).suite
    stored = structs.replace(stored, judge="each")
    for judge, expected in ((None, "each"), ("together", "together")):
        request = SuiteRequest(settle, judge=judge)
        for file in (tmp_path / "night.toml", None):
            assert resume(stored, file, request).suite.judge == expected


def test_a_resume_without_the_file_is_advised_only_if_it_is_possible(tmp_path: Path) -> None:
    text = '[suite]\nseed = 1\n[defaults]\nworkers = 1\n[matrix]\nworkload = "echo"\n'
    for secret, advice in (("", True), ('mirror = "https://me:hush@host/maven"\n', False)):
        stored = planned(tmp_path, text.replace("[matrix]", f"{secret}[matrix]")).suite
        with pytest.raises(UsageError) as error:
            resumed_from(tmp_path, stored, text.replace("workers = 1", "workers = 2"))
        assert ("without the file" in str(error.value)) is advice
