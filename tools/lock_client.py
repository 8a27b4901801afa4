"""Write the lock file of one version of a client: `python tools/lock_client.py librdkafka:2.16.1` or `java:3.9.1`.

librdkafka: the wheels of confluent-kafka of that version, one for each Python and platform that Fencepost runs on;
`pip` tells their names and checksums without fetching them. java: Maven's own closure of kafka-clients (needs `mvn`),
and the binding of slf4j that prints nothing, of the version of slf4j that the closure settled on.

What else is known of the version stands in harness/environment/client-versions.toml, which is written by hand.
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
    """Name and sha256 of the wheel that pip would take there; None where there is none."""
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
    with tempfile.TemporaryDirectory() as nowhere:
        command += ["--target", nowhere, f"confluent-kafka=={version}"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return None
    report = json.loads(answer.stdout)["install"][0]["download_info"]
    return report["url"].rpartition("/")[2], report["archive_info"]["hashes"]["sha256"]


def librdkafka(version: str) -> list[str]:
    """By line: a wheel's name, and its sha256."""
    found = [wheel(version, python, names) for python in PYTHONS for names in PLATFORMS.values()]
    lines = sorted({" ".join(one) for one in found if one is not None})
    assert lines, f"pip knows no wheel of confluent-kafka {version}"
    return lines


def java(version: str) -> list[str]:
    """By line: group:artifact:version of a jar, and its sha256."""
    jars = closure("org.apache.kafka", "kafka-clients", version)
    slf4j, _ = jars["org.slf4j", "slf4j-api"]
    jars |= closure("org.slf4j", "slf4j-nop", slf4j)
    assert jars["org.slf4j", "slf4j-api"][0] == slf4j
    return [
        f"{group}:{artifact}:{settled} {hashlib.sha256(file.read_bytes()).hexdigest()}"
        for (group, artifact), (settled, file) in sorted(jars.items())
    ]


def lock(client: str, version: str) -> str:
    """The text of the lock file."""
    kinds = {"librdkafka": ("wheel", librdkafka), "java": ("group:artifact:version", java)}
    what, lines = kinds[client]
    head = f"# {client} {version}: written by tools/lock_client.py; {what}, sha256"
    return "\n".join([head, *lines(version)]) + "\n"


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        name, _, number = asked.partition(":")
        (FOLDER / f"client-{name}-{number}.lock").write_text(lock(name, number))
