import hashlib
from pathlib import Path

import pytest

from harness.common.errors import FetchFailed, UsageError
from harness.environment.java import LOGGING
from harness.environment.kafka import Jar, fetch, fetch_kafka, pinned_jars, versions
from harness.environment.versions import DEFAULT_KAFKA, kafka_version

GOOD = b"the jar"
JAR = Jar("org.example", "thing", "1.0", hashlib.sha256(GOOD).hexdigest())


@pytest.fixture(autouse=True)
def local_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The local Maven folder of the machine, which is empty."""
    monkeypatch.setenv("M2_REPO", str(tmp_path / "maven"))
    return tmp_path / "maven"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder to which jars are fetched."""
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def put_jar(repository: Path, contents: bytes) -> str:
    jar_folder = repository / "org" / "example" / "thing" / "1.0"
    jar_folder.mkdir(parents=True)
    (jar_folder / "thing-1.0.jar").write_bytes(contents)
    return repository.as_uri()


def test_a_jar_comes_from_the_mirror(tmp_path: Path, folder: Path) -> None:
    fetch([JAR], folder, put_jar(tmp_path / "mirror", GOOD))
    assert [file.name for file in folder.iterdir()] == ["thing-1.0.jar"]


def test_a_jar_with_another_checksum_is_refused_and_removed(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FetchFailed, match=r"^thing-1\.0\.jar .*\(its sha256 is not the pinned one\)"):
        fetch([JAR], folder, put_jar(tmp_path / "mirror", b"another jar"))
    assert list(folder.iterdir()) == []


def test_a_jar_in_the_local_maven_folder_is_not_fetched(
    tmp_path: Path, local_maven: Path, folder: Path
) -> None:
    put_jar(local_maven, GOOD)
    fetch([JAR], folder, (tmp_path / "nothing").as_uri())
    assert (folder / "thing-1.0.jar").read_bytes() == GOOD


def test_a_damaged_jar_in_the_local_maven_folder_is_fetched_again(
    tmp_path: Path, local_maven: Path, folder: Path
) -> None:
    put_jar(local_maven, b"damaged")
    fetch([JAR], folder, put_jar(tmp_path / "mirror", GOOD))
    assert (folder / "thing-1.0.jar").read_bytes() == GOOD


def test_a_failed_fetch_names_its_sources_and_what_to_do_without_a_network(tmp_path: Path) -> None:
    with pytest.raises(FetchFailed) as failed:
        fetch_kafka("4.3.1", tmp_path / "cache", mirror=(tmp_path / "nothing").as_uri())
    for words in (
        "was not in",
        str(tmp_path / "maven"),
        "nothing gave no good copy",
        "copy",
        "--set mirror=URL",
    ):
        assert words in str(failed.value)
    assert not (tmp_path / "cache" / "kafka-4.3.1").exists()


def test_the_error_for_an_unknown_version_lists_the_pinned_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"4\.3\.1"):
        fetch_kafka("newest", tmp_path)


@pytest.mark.parametrize("version", versions())
def test_a_lock_never_mixes_two_versions_of_kafka(version: str) -> None:
    jars = pinned_jars(version)
    assert {jar.version for jar in jars if jar.group == "org.apache.kafka"} == {version}
    assert len({(jar.group, jar.artifact) for jar in jars}) == len(jars)
    assert all(len(jar.sha256) == 64 for jar in jars)


def test_the_default_is_the_newest_pinned_version() -> None:
    assert versions()[0] == DEFAULT_KAFKA


def test_every_pinned_version_is_in_the_table_of_properties() -> None:
    pinned = [kafka_version(name) for name in versions()]
    assert {version.logging for version in pinned} <= set(LOGGING)
    assert all(version.transaction_default in version.transaction_versions for version in pinned)
    assert [version.line for version in pinned] == ["4.4", "4.3", "4.2", "4.1", "4.0", "3.9"]
    with pytest.raises(UsageError, match=r"4\.3\.1"):
        kafka_version("newest")


@pytest.mark.parametrize("version", versions())
def test_the_pinned_jars_include_the_logging_library(version: str) -> None:
    binding = {"log4j1": "slf4j-reload4j", "log4j2": "log4j-slf4j-impl"}[kafka_version(version).logging]
    assert binding in {jar.artifact for jar in pinned_jars(version)}


def test_a_feature_that_a_version_lacks_is_refused() -> None:
    old = kafka_version("3.9.2")
    old.require(None, "classic")
    old.require(0, "classic")
    with pytest.raises(UsageError, match=r"3\.9\.2 has transaction version 0 only, not 2"):
        old.require(2, "classic")
    with pytest.raises(UsageError, match=r"preview only: use --group-protocol classic"):
        old.require(None, "consumer")
    kafka_version("4.3.1").require(1, "consumer")
