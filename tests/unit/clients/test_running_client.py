"""The version of a process's client comes from the library. If it is not the required one, the process ends."""

import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

from harness.environment.cache import cache_folder
from harness.environment.java import find_java, jvm_library
from harness.environment.kafka import fetch_kafka, versions
from harness.environment.versions import RunningClient, running_librdkafka

RUNNING = RunningClient("librdkafka", "2.16.1", "2.16.0")


def test_the_version_comes_from_the_library() -> None:
    running = running_librdkafka()
    assert running.name == "librdkafka"
    assert running.version == confluent_kafka.__version__
    assert running.library == confluent_kafka.libversion()[0]


JAVA = """
import sys
from pathlib import Path
from harness.clients import in_process_jvm as jvm
from harness.processes.specs import JvmSpec
from harness.environment.versions import running_java
jvm.start(JvmSpec(Path(sys.argv[1]), tuple(map(Path, sys.argv[3:])), Path(sys.argv[2])))
print(running_java())
"""


@pytest.mark.processes
def test_the_version_of_the_java_client_comes_from_its_jar(tmp_path: Path) -> None:
    newest = versions()[0]
    jars = fetch_kafka(newest, cache_folder()).class_path  # fetched if the cache does not have them
    command = [sys.executable, "-P", "-c", JAVA, jvm_library(find_java("auto")), tmp_path, *jars]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert process.stdout.strip() == f"kafka-clients {newest}"


def test_a_client_is_shown_with_its_package() -> None:
    assert str(RUNNING) == "confluent-kafka 2.16.1 (librdkafka 2.16.0)"
    assert str(RunningClient("java", "3.9.1")) == "kafka-clients 3.9.1"


def test_the_required_version_is_accepted() -> None:
    RUNNING.require(None)
    RUNNING.require("2.16.1")


def test_another_version_ends_the_process_with_a_message() -> None:
    with pytest.raises(
        SystemExit,
        match=r"runs confluent-kafka 2\.16\.1 .* --client librdkafka:2\.9\.0 requires another version",
    ):
        RUNNING.require("2.9.0")


@pytest.mark.processes
def test_the_first_package_on_the_path_is_the_one_that_runs(tmp_path: Path) -> None:
    """Start Python as a worker is started: with `-P`, and with the client's folder in PYTHONPATH."""
    (tmp_path / "confluent_kafka").mkdir()
    fake_package = "version = lambda: ('9.9.9', 0)\nlibversion = lambda: ('9.9.8', 0)\n"
    (tmp_path / "confluent_kafka" / "__init__.py").write_text(fake_package)
    code = "from harness.environment.versions import running_librdkafka; print(running_librdkafka())"
    root = Path(__file__).parents[3]
    process = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PYTHONPATH": f"{tmp_path}:{root}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.strip() == "confluent-kafka 9.9.9 (librdkafka 9.9.8)"
