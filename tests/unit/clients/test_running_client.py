"""Which client a process runs: the library says so, and another than was asked for ends the process."""

import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

from harness.roles.running_client import RunningClient, running_librdkafka

NEW = RunningClient("librdkafka", "2.16.1", "2.16.0")


def test_the_library_itself_says_which_it_is() -> None:
    running = running_librdkafka()
    assert running.name == "librdkafka"
    assert running.version == confluent_kafka.__version__
    assert running.library == confluent_kafka.libversion()[0]


def test_it_is_told_with_its_package() -> None:
    assert str(NEW) == "confluent-kafka 2.16.1 (librdkafka 2.16.0)"
    assert str(RunningClient("java", "3.9.1")) == "kafka-clients 3.9.1"


def test_the_one_that_was_asked_for_goes_on() -> None:
    NEW.require(None)
    NEW.require("2.16.1")


def test_another_ends_the_process_with_a_sentence() -> None:
    with pytest.raises(
        SystemExit,
        match=r"runs confluent-kafka 2\.16\.1 .* --client librdkafka:2\.9\.0 requires another version",
    ):
        NEW.require("2.9.0")


def test_who_comes_first_on_the_path_is_the_one_that_runs(tmp_path: Path) -> None:
    """As a worker is started: `-P`, and the client's folder in PYTHONPATH."""
    (tmp_path / "confluent_kafka").mkdir()
    planted = "version = lambda: ('9.9.9', 0)\nlibversion = lambda: ('9.9.8', 0)\n"
    (tmp_path / "confluent_kafka" / "__init__.py").write_text(planted)
    code = "from harness.roles.running_client import running_librdkafka; print(running_librdkafka())"
    root = Path(__file__).parents[3]
    told = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PYTHONPATH": f"{tmp_path}:{root}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == "confluent-kafka 9.9.9 (librdkafka 9.9.8)"
