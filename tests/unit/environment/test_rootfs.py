"""A root file system of this machine's parts has all files that its programs need."""

import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.environment import container_image
from harness.environment.java import Java
from harness.environment.kafka import KafkaDistribution


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Java, KafkaDistribution]:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_bytes(Path("/bin/sh").resolve().read_bytes())
    (tmp_path / "kafka-clients-1.jar").write_bytes(b"jar")
    return Java(home, home / "bin" / "java", 25, "25", "test"), KafkaDistribution(
        "1", (tmp_path / "kafka-clients-1.jar",)
    )


@pytest.mark.processes
def test_a_root_file_system_has_java_jars_programs_and_libraries(
    parts: tuple[Java, KafkaDistribution], tmp_path: Path
) -> None:
    file = tmp_path / "rootfs.tar"
    container_image.write_rootfs(file, *parts, tmp_path / "kafka-clients-1.jar")
    with tarfile.open(file) as tar:
        names = {f"/{name}" for name in tar.getnames()}
        assert tar.getmember("tmp").mode == 0o1777
    assert {"/opt/java/openjdk/bin/java", "/opt/kafka/libs/kafka-clients-1.jar", "/etc/passwd"} <= names
    assert str(container_image.ARCHIVE) in names
    assert {f"/bin/{name}" for name in container_image.PROGRAMS} <= names
    libraries = subprocess.run(["ldd", "/bin/cat"], capture_output=True, text=True, check=True).stdout
    needed = {word for word in libraries.split() if word.startswith("/")}
    assert needed and needed <= names


def test_another_java_gives_another_digest(parts: tuple[Java, KafkaDistribution]) -> None:
    java, kafka = parts
    newer = Java(java.home, java.executable, 25, "25.0.3", "test")
    assert (
        container_image.digest_of(java, kafka)
        == container_image.digest_of(java, kafka)
        != container_image.digest_of(newer, kafka)
    )


def test_the_error_for_a_missing_program_names_it(
    parts: tuple[Java, KafkaDistribution], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_image, "PROGRAMS", ("cat", "no-such-program"))
    with pytest.raises(
        EnvironmentFailure, match="it has no no-such-program: name an image with --set image=NAME"
    ):
        container_image.write_rootfs(tmp_path / "x.tar", *parts, None)
