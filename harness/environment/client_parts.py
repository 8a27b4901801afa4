"""Fetch a client of a certain version (`--client NAME:VERSION`) into the cache, checked by its pinned checksum.

The processes of the run use it instead of the installed librdkafka, or the Java client of the cluster's version.

    cache/client-librdkafka-2.16.1-cpython-311-linux-x86_64/    the content of the wheel of confluent-kafka
    cache/client-java-3.9.1/                                    kafka-clients and its dependencies
"""

import os
import platform
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from harness.common.errors import EnvironmentFailure, FetchFailed
from harness.common.wording import redact_text
from harness.environment.cache import Builder, provide
from harness.environment.kafka import Jar, fetch
from harness.environment.versions import ClientVersion, client_versions

NEEDS_MB = 80  # the wheel and its unpacked content, or two copies of the jars, and a margin
_PIP_TIMEOUT_S = 300.0
_WITHOUT_NETWORK = (
    "without a network, copy {cache} from a machine that has it, or name a mirror that can be reached ({how})"
)


@dataclass(frozen=True)
class ClientParts:
    """The files of a client version."""

    version: ClientVersion
    folder: Path
    class_path: tuple[Path, ...] = ()  # jars; empty for librdkafka

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables that a process needs to use the client."""
        if self.class_path:
            return {}
        before = os.environ.get("PYTHONPATH")
        return {"PYTHONPATH": os.pathsep.join([str(self.folder), *([before] if before else [])])}


def fetch_client(
    version: ClientVersion, cache: Path, say: Callable[[str], None], *, mirror: str | None = None
) -> ClientParts:
    """Find a client in the cache, or fetch it.

    Args:
        say: Called with a progress message before a step that takes time.
        mirror: The URL of a Maven repository for the Java client. pip uses its own settings.

    Raises:
        FetchFailed: it cannot be fetched.
        EnvironmentFailure: there is no wheel for this Python and platform.
    """
    fetchers = {"librdkafka": _fetch_librdkafka, "java": _fetch_java}
    return fetchers[version.client](version, cache, say, mirror)


def _fetch_java(
    version: ClientVersion, cache: Path, say: Callable[[str], None], mirror: str | None
) -> ClientParts:
    jars = [Jar(*line.replace(":", " ").split()) for line in _lock_lines(version)]
    name = f"client-java-{version.version}"

    def build(folder: Path) -> None:
        say(f"fetching kafka-clients {version.version} into {cache} (once)")
        try:
            fetch(jars, folder, mirror)
        except FetchFailed as error:
            raise FetchFailed(_failure(version, str(error), cache, "--set mirror=URL")) from error

    folder = provide(cache, name, build, disk_mb=NEEDS_MB)
    return ClientParts(version, folder, tuple(folder / jar.name for jar in jars))


def _fetch_librdkafka(
    version: ClientVersion, cache: Path, say: Callable[[str], None], mirror: str | None
) -> ClientParts:
    wheels = matching_wheels(version)

    def build(folder: Path) -> None:
        if find_spec("pip") is None:
            raise EnvironmentFailure(
                f"--client {version.name} is fetched with pip, but {sys.executable} has no pip: install it with "
                f"`{sys.executable} -m ensurepip`, or leave the version out"
            )
        say(f"fetching confluent-kafka {version.version} into {cache} (once)")
        with Builder() as builder:
            _install(version, wheels, folder, builder, cache)

    name = f"client-librdkafka-{version.version}-{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    return ClientParts(version, provide(cache, name, build, disk_mb=NEEDS_MB))


def matching_wheels(version: ClientVersion) -> list[str]:
    """Return the sha256 of each wheel that may fit this Python and platform.

    Raises `EnvironmentFailure` if there is none.
    """
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheels = _wheels(version)
    fit = [sha for name, sha in wheels.items() if fits(name, python, sys.platform, platform.machine())]
    if not fit or sys.implementation.name != "cpython":
        fitting_versions = [
            pinned.version
            for pinned in client_versions()
            if pinned.client == version.client
            and any(fits(name, python, sys.platform, platform.machine()) for name in _wheels(pinned))
        ]
        alternatives = f"; there are wheels of {', '.join(fitting_versions)}" if fitting_versions else ""
        raise EnvironmentFailure(
            f"there is no pinned wheel of confluent-kafka {version.version} for {sys.implementation.name} "
            f"{sys.version_info.major}.{sys.version_info.minor} on {sys.platform} {platform.machine()}{alternatives}: "
            "choose another version, or run Fencepost with another Python"
        )
    return fit


def fits(wheel: str, python: str, system: str, machine: str) -> bool:
    """Return whether a wheel is for a Python (`cp311`), a system (`linux`, `darwin`) and a machine (`x86_64`).

    pip checks the versions of the C library and of macOS.
    """
    tags = re.fullmatch(r"[^-]+-[^-]+-([^-]+)-[^-]+-([^-]+)\.whl", wheel)
    if tags is None:
        return False
    system_tag = {"linux": "manylinux", "darwin": "macosx"}.get(system, system)
    machine_tag = {"amd64": "x86_64"}.get(machine.lower(), machine.lower())
    return tags[1] == python and tags[2].startswith(system_tag) and tags[2].endswith(f"_{machine_tag}")


def _wheels(version: ClientVersion) -> dict[str, str]:
    return dict(line.split() for line in _lock_lines(version))


def _lock_lines(version: ClientVersion) -> list[str]:
    lines = version.lock.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def _install(version: ClientVersion, wheels: list[str], folder: Path, builder: Builder, cache: Path) -> None:
    """Let pip unpack the wheel into the folder. pip checks its sha256 against `wheels`."""
    work = folder / "work"
    work.mkdir()
    requirement, output = work / "requirements.txt", work / "output"
    hashes = " ".join(f"--hash=sha256:{sha}" for sha in wheels)
    requirement.write_text(f"confluent-kafka=={version.version} {hashes}\n", encoding="utf-8")
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-input", "--no-cache-dir"]
    quiet = ["--quiet", "--disable-pip-version-check", "--retries", "2", "--timeout", "20"]
    command = [sys.executable, "-P", "-m", "pip", "install", *options, *quiet]
    child = builder.spawn(
        [*command, "--target", folder, "--requirement", requirement],
        name=f"the fetching of confluent-kafka {version.version}",
        log_file=output,
        cwd=work,
        env={"PIP_USER": "0", "PIP_ROOT_USER_ACTION": "ignore"},
    )
    status = child.wait(_PIP_TIMEOUT_S)
    if status != 0:
        lines = output.read_text(errors="replace", encoding="utf-8").splitlines()
        raise FetchFailed(_failure(version, _pip_error(lines), cache, "PIP_INDEX_URL"))
    shutil.rmtree(work)


def _pip_error(lines: list[str]) -> str:
    """Return pip's first error, else its first warning about a retry, else its last line; at most 200 characters."""
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    warnings = [line.partition("WARNING:")[2].strip() for line in lines if "WARNING: Retrying" in line]
    text = " ".join((errors[:1] or warnings[:1] or lines[-1:] or ["pip printed nothing"])[0].split())
    return text if len(text) <= 200 else text[:200] + "..."


def _failure(version: ClientVersion, reason: str, cache: Path, how: str) -> str:
    text = f"the client {version.name} could not be fetched ({reason.rstrip('.')}); "
    return redact_text(text + _WITHOUT_NETWORK.format(cache=cache, how=how))
