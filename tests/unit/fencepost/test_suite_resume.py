"""What a suite that goes on keeps of the command that began it."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli import run_command_line
from fencepost.suites import conduct
from fencepost.suites.folder import alone
from harness.errors import ExitStatus
from harness.suite import Suite

HIDDEN = "spark.hadoop.fs.s3a.secret.key=abracadabra"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[conduct.How]:
    """How each suite was to be carried out; none is."""
    found: list[conduct.How] = []

    def carried_out(book: Any, planned: Any, how: conduct.How, progress: Any) -> Suite:
        found.append(how)
        return planned.suite

    monkeypatch.setattr(conduct, "conduct", carried_out)
    return found


def suite(tmp_path: Path, *words: str) -> int:
    (tmp_path / "night.toml").write_text('[matrix]\nworkload = "echo"\n')
    return run_command_line(
        ["suite", str(tmp_path / "night.toml"), "--store", str(tmp_path / "store"), *words]
    )


def again(tmp_path: Path, *words: str) -> int:
    return run_command_line(["suite", "--resume", str(tmp_path / "store" / "night" / "latest"), *words])


def test_it_goes_on_with_the_master_that_it_began_with(tmp_path: Path, asked: list[conduct.How]) -> None:
    suite(tmp_path, "--master", "spark://here:7077", "--spark-conf", "spark.executor.memory=2g")
    again(tmp_path)
    again(tmp_path, "--master", "local[2]", "--spark-conf", "spark.executor.cores=1")
    again(tmp_path)
    masters = ["spark://here:7077", "spark://here:7077", "local[2]", "local[2]"]
    assert [how.master for how in asked] == masters
    assert [dict(how.spark_conf) for how in asked] == [
        {"spark.executor.memory": "2g"},
        {"spark.executor.memory": "2g"},
        {"spark.executor.memory": "2g", "spark.executor.cores": "1"},
        {"spark.executor.memory": "2g", "spark.executor.cores": "1"},
    ]


def test_a_secret_is_not_stored_and_asked_for_again(
    tmp_path: Path, asked: list[conduct.How], capfd: pytest.CaptureFixture[str]
) -> None:
    suite(tmp_path, "--spark-conf", HIDDEN)
    stored = (tmp_path / "store" / "night" / "latest" / "suite.json").read_text()
    assert "abracadabra" not in stored and json.loads(stored)["spark"]["spark-conf"]
    capfd.readouterr()
    assert again(tmp_path) == ExitStatus.USAGE
    said = capfd.readouterr().err
    assert (
        "this suite began with a secret in spark.hadoop.fs.s3a.secret.key" in said and said.count("\n") == 1
    )
    again(tmp_path, "--spark-conf", HIDDEN)
    assert [how.spark_conf for how in asked] == [dict([HIDDEN.split("=")])] * 2


def test_the_record_of_a_suite_that_goes_on_is_read_once_nobody_else_writes_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "suite.json").write_text("written by whoever has the lock")
    with alone(tmp_path):
        assert run_command_line(["suite", "--resume", str(tmp_path)]) == ExitStatus.USAGE
    assert "this suite is still going on" in capfd.readouterr().err
    assert run_command_line(["suite", "--resume", str(tmp_path)]) != ExitStatus.VALID
    assert "still going on" not in capfd.readouterr().err


def test_what_fails_while_a_suite_is_held_is_not_taken_for_another_who_holds_it(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), alone(tmp_path):
        raise BlockingIOError
