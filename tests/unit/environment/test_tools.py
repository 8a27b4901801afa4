"""The choice of Java and toxiproxy, the checks of memory and disk, and the doctor."""

from pathlib import Path

import pytest

from fencepost.runs.preparing import prepare_cluster
from harness.common.errors import EnvironmentFailure, UsageError
from harness.environment.doctor import examine
from harness.environment.java import BROKER, Java, archive_path, broker_command, bundled_java, find_java
from harness.environment.kafka import KafkaDistribution, locate_kafka
from harness.environment.resources import require
from harness.environment.toxiproxy import find_toxiproxy, system_toxiproxy
from harness.settings.options import Options

pytestmark = pytest.mark.processes

KAFKA = KafkaDistribution("4.3.1", (Path("/jars/one.jar"), Path("/jars/two.jar")))


def write_program(path: Path, prints: str) -> Path:
    """Write a program that only prints a text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\n")
    path.chmod(0o755)
    return path


def write_old_java(home: Path) -> Path:
    properties = (
        f"    java.home = {home}\n    java.runtime.version = 11.0.2\n    java.specification.version = 11"
    )
    return write_program(home / "bin" / "java", properties)


def some_java(version: int, release: str = "x") -> Java:
    return Java(Path("/java"), Path("/java/bin/java"), version, release, "PATH")


def test_the_bundled_java_is_new_enough() -> None:
    assert find_java("bundled").version >= 17


def test_a_machine_with_only_an_old_java_gets_the_bundled_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_old_java(tmp_path / "old")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'old' / 'bin'}:/bin")
    assert find_java("auto") == bundled_java()


def test_java_home_is_searched_before_path(monkeypatch: pytest.MonkeyPatch) -> None:
    home = bundled_java().home
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java("auto").home == home
    assert find_java("auto").origin == "JAVA_HOME"


def test_an_old_java_that_the_user_names_is_refused(tmp_path: Path) -> None:
    write_old_java(tmp_path)
    with pytest.raises(UsageError, match="is Java 11, but Kafka needs 17 or newer"):
        find_java(str(tmp_path))


def test_a_path_without_java_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name a Java home"):
        find_java(str(tmp_path))


def test_an_old_toxiproxy_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = write_program(tmp_path / "toxiproxy-server", "toxiproxy-server version 2.4.0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert system_toxiproxy() is None
    with pytest.raises(UsageError, match=r"older than 2\.5"):
        find_toxiproxy(str(server), tmp_path)


def test_a_new_toxiproxy_on_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = write_program(tmp_path / "toxiproxy-server", "toxiproxy-server version 2.12.0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert find_toxiproxy("auto", tmp_path) == server


def test_a_path_without_toxiproxy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a toxiproxy-server"):
        find_toxiproxy(str(tmp_path / "nothing"), tmp_path)


def test_a_broker_command_has_every_jar_and_ends_with_class_and_arguments(tmp_path: Path) -> None:
    command = broker_command(some_java(17), KAFKA, args=["server.properties"], folder=tmp_path, heap_mb=300)
    assert command[-2:] == [BROKER, "server.properties"]
    assert command[command.index("-cp") + 1] == "/jars/one.jar:/jars/two.jar"
    assert "-Xmx300m" in command


def test_another_build_of_java_needs_another_archive(tmp_path: Path) -> None:
    paths = {archive_path(some_java(17, release), KAFKA, tmp_path) for release in ("a", "b", "a")}
    assert len(paths) == 2


def test_too_little_memory_or_disk_is_an_error(tmp_path: Path) -> None:
    require(1, 1, tmp_path / "not" / "there")
    with pytest.raises(EnvironmentFailure, match="MB of memory are needed"):
        require(10**9, 1, tmp_path)
    with pytest.raises(EnvironmentFailure, match="MB of disk are needed"):
        require(1, 10**9, tmp_path)


def test_the_doctor_reports_missing_parts_and_fetches_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    parts = {part.name: part for part in examine(cache, kafka_version="4.3.1")}
    assert (parts["Kafka 4.3.1"].ok, parts["Kafka 4.3.1"].later) == (True, True)
    assert "without a network" in parts["Kafka 4.3.1"].advice
    assert parts["Python"].ok
    assert parts["Java"].ok
    assert all(part.advice for part in parts.values() if not part.ok)
    assert not cache.exists()


def test_an_incomplete_kafka_folder_is_reported_as_missing(tmp_path: Path) -> None:
    locate_kafka("4.3.1", tmp_path).class_path[0].parent.mkdir(parents=True)
    part = next(part for part in examine(tmp_path, kafka_version="4.3.1") if part.name == "Kafka 4.3.1")
    assert (part.ok, part.later) == (False, False)
    assert "remove" in part.advice


@pytest.mark.parametrize("exists", [True, False])
def test_the_doctor_says_whether_clocks_and_disks_can_be_changed(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = write_program(tmp_path / "cc", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path) if exists else str(tmp_path / "nothing"))
    part = next(part for part in examine(tmp_path) if part.name == "C compiler")
    if exists:
        assert (part.ok, part.advice) == (True, "") and part.state.startswith(f"{compiler}, for faults")
    else:
        assert part.ok and part.state.startswith("none, and only faults that change clocks")
        assert "apt-get install gcc" in part.advice


def test_a_fault_on_a_clock_is_refused_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(
        EnvironmentFailure,
        match=r"^jump-broker-clock cannot be injected on this machine: there is no C compiler",
    ):
        prepare_cluster(
            Options(), tmp_path, print, clients=["librdkafka"], faults=["kill-broker", "jump-broker-clock"]
        )
