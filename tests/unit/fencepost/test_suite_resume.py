"""What a suite that goes on keeps of the command that began it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli import run_command_line
from fencepost.commands.options import settle
from fencepost.suites import plan, run
from fencepost.suites.plan import SuitePlan, SuiteRequest, resume
from fencepost.suites.record import lock
from fencepost.suites.run import SuiteSettings
from harness.common.errors import ExitStatus, UsageError
from harness.results.suite import Suite

HIDDEN = "spark.hadoop.fs.s3a.secret.key=abracadabra"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SuiteSettings]:
    """The settings of each suite that would run; none does."""
    found: list[SuiteSettings] = []

    class NothingRuns:
        def __init__(self, record: Any, plan: SuitePlan, settings: SuiteSettings, progress: Any) -> None:
            found.append(settings)
            self._plan = plan

        def run(self) -> Suite:
            return self._plan.suite

    monkeypatch.setattr(run, "SuiteRun", NothingRuns)
    return found


def suite(tmp_path: Path, *words: str) -> int:
    (tmp_path / "night.toml").write_text('[matrix]\nworkload = "echo"\n')
    return run_command_line(
        ["suite", str(tmp_path / "night.toml"), "--store", str(tmp_path / "store"), *words]
    )


def resumed(tmp_path: Path, *words: str) -> int:
    return run_command_line(["suite", "--resume", str(tmp_path / "store" / "night" / "latest"), *words])


def test_it_goes_on_with_the_master_that_it_began_with(tmp_path: Path, asked: list[SuiteSettings]) -> None:
    suite(tmp_path, "--master", "spark://here:7077", "--spark-conf", "spark.executor.memory=2g")
    resumed(tmp_path)
    resumed(tmp_path, "--master", "local[2]", "--spark-conf", "spark.executor.cores=1")
    resumed(tmp_path)
    masters = ["spark://here:7077", "spark://here:7077", "local[2]", "local[2]"]
    assert [how.master for how in asked] == masters
    assert [dict(how.spark_conf) for how in asked] == [
        {"spark.executor.memory": "2g"},
        {"spark.executor.memory": "2g"},
        {"spark.executor.memory": "2g", "spark.executor.cores": "1"},
        {"spark.executor.memory": "2g", "spark.executor.cores": "1"},
    ]


def test_a_secret_is_not_stored_and_asked_for_again(
    tmp_path: Path, asked: list[SuiteSettings], capfd: pytest.CaptureFixture[str]
) -> None:
    suite(tmp_path, "--spark-conf", HIDDEN)
    stored = (tmp_path / "store" / "night" / "latest" / "suite.json").read_text()
    assert "abracadabra" not in stored and json.loads(stored)["spark"]["spark-conf"]
    capfd.readouterr()
    assert resumed(tmp_path) == ExitStatus.USAGE
    said = capfd.readouterr().err
    assert (
        "this suite began with a secret in spark.hadoop.fs.s3a.secret.key" in said and said.count("\n") == 1
    )
    resumed(tmp_path, "--spark-conf", HIDDEN)
    assert [how.spark_conf for how in asked] == [dict([HIDDEN.split("=")])] * 2


def test_the_record_of_a_suite_that_goes_on_is_read_once_nobody_else_writes_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "suite.json").write_text("written by whoever has the lock")
    with lock(tmp_path):
        assert run_command_line(["suite", "--resume", str(tmp_path)]) == ExitStatus.USAGE
    assert "this suite is still running" in capfd.readouterr().err
    assert run_command_line(["suite", "--resume", str(tmp_path)]) != ExitStatus.VALID
    assert "still running" not in capfd.readouterr().err


def test_what_fails_while_a_suite_is_held_is_not_taken_for_another_who_holds_it(tmp_path: Path) -> None:
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


def test_a_suite_goes_on_from_its_record_alone(tmp_path: Path) -> None:
    made = planned(tmp_path, f'[matrix]\nworkload = ["shop"]\nnemesis = ["drawn", "none"]\n{KNOWN}{PLANTED}')
    made.suite.save(tmp_path)
    back = resume(Suite.load(tmp_path), None, SuiteRequest(settle))
    assert back.options == made.options
    assert back.failures == made.failures
    assert back.failures.expected[0].anomalies == ("lost-input", "poll-skip")
    assert [cell.name for cell in back.suite.cells] == [cell.name for cell in made.suite.cells]


def test_secrets_are_not_written_down_and_have_to_be_given_again(tmp_path: Path) -> None:
    text = '[suite]\nseed = 1\n[defaults]\nmirror = "https://me:hush@host/maven"\n[matrix]\nworkload = "echo"'
    made = planned(tmp_path, text)
    made.suite.save(tmp_path)
    assert "hush" not in (tmp_path / "suite.json").read_text()
    assert made.options["echo librdkafka drawn"].mirror == "https://me:hush@host/maven"
    stored = Suite.load(tmp_path)
    with pytest.raises(UsageError, match="name the suite file as well"):
        resume(stored, None, SuiteRequest(settle))
    assert resumed_from(tmp_path, stored, text).options == made.options


def test_a_file_that_has_not_changed_is_the_same_suite(tmp_path: Path) -> None:
    text = '[suite]\nseed = 1\n[matrix]\nworkload = ["echo"]'
    stored = planned(tmp_path, text).suite
    assert resumed_from(tmp_path, stored, text).suite.cells == stored.cells


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ('["echo"]', '["echo", "shop"]', 'the cell "shop librdkafka drawn" is new'),
        ('["echo", "shop"]', '["echo"]', 'there is no cell "shop librdkafka drawn" any more'),
        ("workers = 1", "workers = 2", 'workers of the cell "echo librdkafka drawn" was 1, and is 2 now'),
    ],
)
def test_of_a_file_that_has_changed_the_first_difference_is_told(
    before: str, now: str, told: str, tmp_path: Path
) -> None:
    text = '[suite]\nseed = 1\n[defaults]\nworkers = 1\n[matrix]\nworkload = ["echo"]\n'.replace(
        '["echo"]', before if "echo" in before else '["echo"]'
    )
    stored = planned(tmp_path, text).suite
    with pytest.raises(UsageError, match=told):
        resumed_from(tmp_path, stored, text.replace(before, now))


def test_it_is_judged_as_it_began_whether_the_file_is_named_or_not(tmp_path: Path) -> None:
    text = '[matrix]\nworkload = "echo"\n'
    began = planned(tmp_path, text).suite
    began = replace(began, judge="each")
    for judge, wanted in ((None, "each"), ("together", "together")):
        request = SuiteRequest(settle, judge=judge)
        for file in (tmp_path / "night.toml", None):
            assert resume(began, file, request).suite.judge == wanted


def test_no_advice_goes_in_a_circle(tmp_path: Path) -> None:
    text = '[suite]\nseed = 1\n[defaults]\nworkers = 1\n[matrix]\nworkload = "echo"\n'
    for secret, advice in (("", True), ('mirror = "https://me:hush@host/maven"\n', False)):
        stored = planned(tmp_path, text.replace("[matrix]", f"{secret}[matrix]")).suite
        with pytest.raises(UsageError) as refused:
            resumed_from(tmp_path, stored, text.replace("workers = 1", "workers = 2"))
        assert ("without the file" in str(refused.value)) is advice
