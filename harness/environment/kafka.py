"""Kafka's jars: pinned by Maven coordinates and sha256, fetched once into the cache.

`kafka-VERSION.lock` names each jar; `tools/lock_kafka.py` writes it. A jar is taken from the machine's own
Maven folder if it is there, else from Maven Central or the mirror that the user names; wherever it
comes from, its sha256 must be the lock's.
"""

import hashlib
import os
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from harness.common.errors import EnvironmentFailure, FetchFailed, UsageError
from harness.common.names import unknown
from harness.common.secrets import redact_text
from harness.environment.cache import provide

NEEDS_MB = 150  # the jars twice, for a moment, and a margin
_ATTEMPTS = 3
_THREADS = 8
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Jar:
    """One line of a lock file."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """Its file name."""
        return f"{self.artifact}-{self.version}.jar"


@dataclass(frozen=True)
class KafkaDistribution:
    """The jars of one version of Kafka: brokers, tools and the binding that lets them log."""

    version: str
    class_path: tuple[Path, ...]


def versions() -> tuple[str, ...]:
    """The versions that are pinned, newest first."""
    found = [path.stem.removeprefix("kafka-") for path in _HERE.glob("kafka-*.lock")]
    return tuple(sorted(found, key=lambda version: [int(part) for part in version.split(".")], reverse=True))


def locate_kafka(version: str, cache: Path) -> KafkaDistribution:
    """Where the jars of a version lie, or will lie; raises `UsageError` for one that is not pinned."""
    folder = cache / f"kafka-{version}"
    return KafkaDistribution(version, tuple(folder / jar.name for jar in pinned_jars(version)))


def kafka(version: str, cache: Path, *, mirror: str | None = None) -> KafkaDistribution:
    """Find or fetch a version.

    `mirror` is the URL of a Maven repository (http, https or file) to use instead of Maven Central.
    Raises `UsageError` for a version that is not pinned, and `FetchFailed`.
    """
    jars = pinned_jars(version)

    def build(folder: Path) -> None:
        try:
            fetch(jars, folder, mirror)
        except FetchFailed as error:
            raise FetchFailed(
                f"Kafka {version} could not be fetched: {error}; without a network, copy {cache} "
                "or ~/.m2 from a machine that has it, or name a Maven repository that can be reached "
                "(--set mirror=URL)"
            ) from error

    provide(cache, f"kafka-{version}", build, disk_mb=NEEDS_MB)
    return locate_kafka(version, cache)


def pinned_jars(version: str) -> list[Jar]:
    """The lock of a version; raises `UsageError` if there is none."""
    if version not in versions():
        raise UsageError(unknown("pinned Kafka version", version, versions()))
    lines = (_HERE / f"kafka-{version}.lock").read_text(encoding="utf-8").splitlines()
    return [Jar(*line.replace(":", " ").split()) for line in lines if not line.startswith("#")]


def fetch(jars: Sequence[Jar], folder: Path, mirror: str | None) -> None:
    """Put every jar into the folder, its sha256 checked; raises `FetchFailed`, which says what was tried."""
    over = threading.Event()
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="fetch")
    try:
        for done in [pool.submit(_fetch_one, jar, folder, mirror, over) for jar in jars]:
            done.result()
    finally:
        over.set()  # after a failure, or an interruption, nobody tries again
        pool.shutdown(cancel_futures=True)


def _fetch_one(jar: Jar, folder: Path, mirror: str | None, over: threading.Event) -> None:
    place = folder / jar.name
    if _own(jar, place):
        return
    failure: Exception | None = None
    for attempt in range(_ATTEMPTS):
        if over.is_set():
            return
        scratch = folder / f"fetching-{jar.name}-{attempt}"  # a new one: a torn download would count as there
        try:
            shutil.copyfile(_download(jar, scratch, mirror), place)
        except (OSError, RuntimeError) as error:  # what requests raises is an OSError
            failure = error
            continue
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if _sha256(place) == jar.sha256:
            return
        place.unlink()
        failure = EnvironmentFailure("its sha256 is not the pinned one")
    source = mirror or "Maven Central"
    tried = (
        f"{jar.name} was not in {local_maven_folder()}, and {source} gave no good copy ({_short(failure)})"
    )
    raise FetchFailed(redact_text(tried))


def local_maven_folder() -> Path:
    """The folder in which Maven keeps what it has fetched on this machine."""
    chosen = os.environ.get("M2_REPO")
    return Path(chosen) if chosen else Path("~/.m2/repository").expanduser()


def _own(jar: Jar, place: Path) -> bool:
    """Copy a jar from the machine's own Maven folder; False if there is none or not the pinned one."""
    folder = local_maven_folder() / jar.group.replace(".", "/") / jar.artifact / jar.version
    try:
        shutil.copyfile(folder / jar.name, place)
    except OSError:
        return False
    if _sha256(place) == jar.sha256:
        return True
    place.unlink()
    return False


def _download(jar: Jar, scratch: Path, mirror: str | None) -> Path:
    from jgo.maven import MavenContext

    parts = urlsplit(mirror or "")
    if parts.scheme == "file":
        local = Path(unquote(parts.path))
        maven = MavenContext(repo_cache=scratch, local_repos=[local], remote_repos={}, offline=True)
    else:  # without a mirror jgo's own choice, which is Maven Central
        remote = {"mirror": mirror.rstrip("/")} if mirror else None
        maven = MavenContext(repo_cache=scratch, local_repos=[], remote_repos=remote, timeout=20)
    file: Path = maven.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve()
    return file


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _short(error: Exception | None) -> str:
    """The last cause in a chain of errors, in at most a line."""
    while error is not None and isinstance(error.__context__, Exception):
        error = error.__context__
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:200] + "..."
