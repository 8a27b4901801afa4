"""The pinned client versions, and the errors if a version cannot be fetched."""

import re
import sys
from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure, ExitStatus, FetchFailed, UsageError
from harness.environment import client_parts as parts
from harness.environment.client_parts import fetch_client, fits, matching_wheels
from harness.environment.kafka import versions
from harness.environment.versions import ClientVersion, client_version, client_versions

ALL = client_versions()
PINNED = pytest.mark.parametrize("pinned", ALL, ids=lambda pinned: pinned.name)
OLD = client_version("librdkafka", "2.6.1")
IGNORE_PROGRESS = lambda words: None  # noqa: E731


def lock_entries(pinned: ClientVersion) -> dict[str, str]:
    lines = pinned.lock.read_text().splitlines()
    assert lines[0].startswith(f"# {pinned.client} {pinned.version}: written by tools/lock_client.py")
    return dict(line.split() for line in lines[1:])


@PINNED
def test_every_file_of_a_version_has_a_checksum(pinned: ClientVersion) -> None:
    files = lock_entries(pinned)
    assert files and all(re.fullmatch(r"[0-9a-f]{64}", sha) for sha in files.values())


def test_every_lock_file_belongs_to_a_pinned_version() -> None:
    folder = ALL[0].lock.parent
    assert {path.name for path in folder.glob("client-*.lock")} == {pinned.lock.name for pinned in ALL}
    assert not [
        version for version in versions() if "client" in version
    ]  # no lock of a client counts as a Kafka


@pytest.mark.parametrize(
    "pinned", [pinned for pinned in ALL if pinned.client == "librdkafka"], ids=lambda pinned: pinned.name
)
def test_there_is_a_wheel_for_each_python_on_linux_and_macos(pinned: ClientVersion) -> None:
    wheels = lock_entries(pinned)
    assert all(name.startswith(f"confluent_kafka-{pinned.version}-cp") for name in wheels)
    for python in ("cp311", "cp312", "cp313"):
        for platform in (
            ("linux", "x86_64"),
            ("linux", "aarch64"),
            ("darwin", "arm64"),
            ("darwin", "x86_64"),
        ):
            assert len([name for name in wheels if fits(name, python, *platform)]) == 1, (python, platform)


@pytest.mark.parametrize(
    "pinned", [pinned for pinned in ALL if pinned.client == "java"], ids=lambda pinned: pinned.name
)
def test_a_java_client_has_its_jar_and_a_binding_that_logs_nothing(pinned: ClientVersion) -> None:
    jars = {artifact: version for _, artifact, version in (name.split(":") for name in lock_entries(pinned))}
    assert jars["kafka-clients"] == pinned.version
    assert jars["slf4j-nop"] == jars["slf4j-api"]
    assert {"zstd-jni", "lz4-java", "snappy-java"} < jars.keys()


@pytest.mark.parametrize(
    ("client", "version", "words"),
    [
        (
            "librdkafka",
            "2.16.2",
            r'no pinned client "librdkafka:2.16.2" \(did you mean "librdkafka:2.16.1"\?\): .*2\.6\.1',
        ),
        (
            "java",
            "3.9.9",
            r'\(did you mean "java:3.9.\d"\?\): choose one of java:4.4.0, .*cluster\'s version',
        ),
        ("java", "newest", r'no pinned client "java:newest": choose one of java:4.4.0'),
    ],
)
def test_the_error_for_an_unknown_version_lists_the_pinned_ones(
    client: str, version: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words) as error:
        client_version(client, version)
    assert "\n" not in str(error.value)


def test_a_summary_names_package_library_and_notes() -> None:
    assert OLD.summary == "confluent-kafka 2.6.1, which brings librdkafka 2.6.1"
    assert "which brings librdkafka 2.16.0; send_offsets" in client_version("librdkafka", "2.16.1").summary
    assert client_version("java", "3.9.1").summary == "kafka-clients 3.9.1"


WHEEL = "confluent_kafka-2.6.1-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("python", "system", "machine", "fit"),
    [
        ("cp311", "linux", "x86_64", True),
        ("cp311", "linux", "AMD64", True),
        ("cp312", "linux", "x86_64", False),
        ("cp311", "linux", "aarch64", False),
        ("cp311", "darwin", "x86_64", False),
        ("cp311", "win32", "x86_64", False),
    ],
)
def test_a_wheel_fits_one_python_and_one_kind_of_machine(
    python: str, system: str, machine: str, fit: bool
) -> None:
    assert fits(WHEEL, python, system, machine) is fit


def test_a_machine_without_a_pinned_wheel_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(parts.platform, "machine", lambda: "riscv64")
    with pytest.raises(
        EnvironmentFailure, match=r"no pinned wheel of confluent-kafka 2\.6\.1 for .* riscv64: choose"
    ):
        fetch_client(OLD, tmp_path, IGNORE_PROGRESS)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """pip without a network. Returns its folder of wheels, which is empty."""
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return tmp_path / "wheels"


def fetch_error(cache: Path, pinned: ClientVersion, mirror: str | None = None) -> str:
    with pytest.raises(FetchFailed) as error:
        fetch_client(pinned, cache, IGNORE_PROGRESS, mirror=mirror)
    assert error.value.exit_status is ExitStatus.FAILURE
    assert "\n" not in str(error.value)
    assert not list(cache.glob("client-*"))
    assert not list(cache.glob("building/*"))
    return str(error.value)


@pytest.mark.processes
def test_a_failed_fetch_says_what_to_do_without_a_network(no_index: Path, tmp_path: Path) -> None:
    words = fetch_error(tmp_path / "cache", OLD)
    assert "the client librdkafka:2.6.1 could not be fetched (" in words
    assert f"copy {tmp_path / 'cache'} from a machine" in words and "PIP_INDEX_URL" in words


@pytest.mark.processes
def test_a_wheel_with_another_checksum_is_refused_and_removed(no_index: Path, tmp_path: Path) -> None:
    names = [name for name in lock_entries(OLD) if lock_entries(OLD)[name] in matching_wheels(OLD)]
    for name in names:
        (no_index / name).write_bytes(b"another wheel")
    assert "HASH" in fetch_error(tmp_path / "cache", OLD).upper()


def test_a_failed_fetch_of_a_java_client_names_the_mirror_option(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("M2_REPO", str(tmp_path / "own"))
    words = fetch_error(tmp_path / "cache", client_version("java", "3.9.1"), (tmp_path / "nothing").as_uri())
    assert "the client java:3.9.1 could not be fetched (" in words and "--set mirror=URL" in words


def test_the_folder_of_a_wheel_comes_first_on_the_python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("/cache/client")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert parts.ClientParts(OLD, folder).environment() == {"PYTHONPATH": "/cache/client"}
    monkeypatch.setenv("PYTHONPATH", "/mine")
    assert parts.ClientParts(OLD, folder).environment() == {"PYTHONPATH": "/cache/client:/mine"}
    jars = (folder / "kafka-clients-3.9.1.jar",)
    assert parts.ClientParts(client_version("java", "3.9.1"), folder, jars).environment() == {}


def test_this_machine_has_one_matching_wheel() -> None:
    assert sys.implementation.name == "cpython"
    assert len(matching_wheels(OLD)) == 1
