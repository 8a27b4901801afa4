"""Write the lock file of one version of a client: `python tools/lock_client.py librdkafka:2.16.1` or `java:3.9.1`.

librdkafka: the wheels of that version of confluent-kafka, one for each Python and platform that Fencepost supports.
`pip` prints their names and checksums without a download. java: kafka-clients with its dependencies, as Maven resolves
them (needs `mvn`), and the binding slf4j-nop, which prints nothing, in the version of slf4j among these dependencies.

Other facts about the version are in harness/environment/client-versions.toml, which is edited by hand.
"""

import hashlib
import json
import subprocess
import sys
import tempfile

from lock_kafka import FOLDER, closure

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "linux x86_64": ("manylinux_2_28_x86_64", "manylinux2014_x86_64"),
    "linux aarch64": ("manylinux_2_28_aarch64", "manylinux2014_aarch64"),
    "macOS arm64": ("macosx_15_0_arm64", "macosx_13_0_arm64", "macosx_11_0_arm64"),
    "macOS x86_64": ("macosx_15_0_x86_64", "macosx_13_0_x86_64", "macosx_10_9_x86_64"),
}


def wheel(version: str, python: str, platforms: tuple[str, ...]) -> tuple[str, str] | None:
    """Return name and sha256 of the wheel that pip would install on these platforms. None if there is no wheel."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--quiet",
        "--ignore-installed",
        "--no-deps",
    ]
    command += [
        "--only-binary",
        ":all:",
        "--implementation",
        "cp",
        "--python-version",
        python,
        "--report",
        "-",
    ]
    for platform in platforms:
        command += ["--platform", platform]
    with tempfile.TemporaryDirectory() as folder:
        command += ["--target", folder, f"confluent-kafka=={version}"]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, encoding="utf-8", errors="replace"
        )
    if answer.returncode != 0:
        return None
    report = json.loads(answer.stdout)["install"][0]["download_info"]
    return report["url"].rpartition("/")[2], report["archive_info"]["hashes"]["sha256"]


def librdkafka(version: str) -> list[str]:
    """Return a line for each wheel: its name and its sha256."""
    wheels = [wheel(version, python, names) for python in PYTHONS for names in PLATFORMS.values()]
    lines = sorted({" ".join(name_and_hash) for name_and_hash in wheels if name_and_hash is not None})
    assert lines, f"pip knows no wheel of confluent-kafka {version}"
    return lines


def java(version: str) -> list[str]:
    """Return a line for each jar: group:artifact:version, and its sha256."""
    jars = closure("org.apache.kafka", "kafka-clients", version)
    slf4j, _ = jars["org.slf4j", "slf4j-api"]
    jars |= closure("org.slf4j", "slf4j-nop", slf4j)
    assert jars["org.slf4j", "slf4j-api"][0] == slf4j
    return [
        f"{group}:{artifact}:{settled} {hashlib.sha256(file.read_bytes()).hexdigest()}"
        for (group, artifact), (settled, file) in sorted(jars.items())
    ]


def lock(client: str, version: str) -> str:
    """Return the text of the lock file."""
    kinds = {"librdkafka": ("wheel", librdkafka), "java": ("group:artifact:version", java)}
    columns, lines = kinds[client]
    head = f"# {client} {version}: written by tools/lock_client.py; {columns}, sha256"
    return "\n".join([head, *lines(version)]) + "\n"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        name, _, number = argument.partition(":")
        (FOLDER / f"client-{name}-{number}.lock").write_text(lock(name, number), encoding="utf-8")
