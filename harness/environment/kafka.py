"""Fetch Kafka's jars once into the cache. They are pinned by Maven coordinates and sha256.

`kafka-VERSION.lock` names each jar, and `tools/lock_kafka.py` writes it. A jar comes from the machine's Maven folder if
it is there, otherwise from Maven Central or the user's mirror. Its sha256 must always be that of the lock.
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
from harness.common.wording import redact_text, unknown
from harness.environment.cache import provide

NEEDS_MB = 150  # two copies of the jars during the fetch, and a margin
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
        """Return the file name."""
        return f"{self.artifact}-{self.version}.jar"


@dataclass(frozen=True)
class KafkaDistribution:
    """The jars of one version of Kafka: brokers, tools and the logging binding."""

    version: str
    class_path: tuple[Path, ...]

    @property
    def clients_jar(self) -> Path:
        """The jar of `kafka-clients`, which has the schemas of Kafka's messages."""
        return next(jar for jar in self.class_path if jar.name.startswith("kafka-clients-"))


def versions() -> tuple[str, ...]:
    """Return the pinned versions, newest first."""
    names = [path.stem.removeprefix("kafka-") for path in _HERE.glob("kafka-*.lock")]
    return tuple(sorted(names, key=lambda version: [int(part) for part in version.split(".")], reverse=True))


def locate_kafka(version: str, cache: Path) -> KafkaDistribution:
    """Return the paths of the jars of a version, which need not exist yet. Raises `UsageError` if it is not pinned."""
    folder = cache / f"kafka-{version}"
    return KafkaDistribution(version, tuple(folder / jar.name for jar in pinned_jars(version)))


def fetch_kafka(version: str, cache: Path, *, mirror: str | None = None) -> KafkaDistribution:
    """Find a version in the cache, or fetch it.

    Args:
        mirror: the URL of a Maven repository (http, https or file) to use instead of Maven Central.

    Raises:
        UsageError: the version is not pinned.
        FetchFailed: it cannot be fetched.
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
    """Read the lock of a version. Raises `UsageError` if there is none."""
    if version not in versions():
        raise UsageError(unknown("pinned Kafka version", version, versions()))
    lines = (_HERE / f"kafka-{version}.lock").read_text(encoding="utf-8").splitlines()
    return [Jar(*line.replace(":", " ").split()) for line in lines if not line.startswith("#")]


def fetch(jars: Sequence[Jar], folder: Path, mirror: str | None) -> None:
    """Fetch every jar into the folder, and check its sha256. Raises `FetchFailed`."""
    stop = threading.Event()
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="fetch")
    try:
        for result in [pool.submit(_fetch_one, jar, folder, mirror, stop) for jar in jars]:
            result.result()
    finally:
        stop.set()  # after a failure or an interruption, the other threads must not try again
        pool.shutdown(cancel_futures=True)


def _fetch_one(jar: Jar, folder: Path, mirror: str | None, stop: threading.Event) -> None:
    target = folder / jar.name
    if _copy_local(jar, target):
        return
    failure: Exception | None = None
    for attempt in range(_ATTEMPTS):
        if stop.is_set():
            return
        scratch = folder / f"fetching-{jar.name}-{attempt}"  # a new one, because jgo keeps a partial download
        try:
            shutil.copyfile(_download(jar, scratch, mirror), target)
        except (OSError, RuntimeError) as error:  # exceptions of requests are OSErrors
            failure = error
            continue
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if _sha256(target) == jar.sha256:
            return
        target.unlink()
        failure = EnvironmentFailure("its sha256 is not the pinned one")
    source = mirror or "Maven Central"
    message = f"{jar.name} was not in {local_maven_folder()}, and {source} gave no good copy ({_last_cause(failure)})"
    raise FetchFailed(redact_text(message))


def local_maven_folder() -> Path:
    """Return Maven's local repository: `$M2_REPO`, or `~/.m2/repository`."""
    folder = os.environ.get("M2_REPO")
    return Path(folder) if folder else Path("~/.m2/repository").expanduser()


def _copy_local(jar: Jar, target: Path) -> bool:
    """Copy a jar from Maven's local repository. Return False if it is not there, or has another sha256."""
    folder = local_maven_folder() / jar.group.replace(".", "/") / jar.artifact / jar.version
    try:
        shutil.copyfile(folder / jar.name, target)
    except OSError:
        return False
    if _sha256(target) == jar.sha256:
        return True
    target.unlink()
    return False


def _download(jar: Jar, scratch: Path, mirror: str | None) -> Path:
    from jgo.maven import MavenContext

    parts = urlsplit(mirror or "")
    if parts.scheme == "file":
        local = Path(unquote(parts.path))
        maven = MavenContext(repo_cache=scratch, local_repos=[local], remote_repos={}, offline=True)
    else:  # without a mirror jgo uses Maven Central
        remote = {"mirror": mirror.rstrip("/")} if mirror else None
        maven = MavenContext(repo_cache=scratch, local_repos=[], remote_repos=remote, timeout=20)
    file: Path = maven.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve()
    return file


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _last_cause(error: Exception | None) -> str:
    """Return the text of the innermost error of a chain, at most 200 characters."""
    while error is not None and isinstance(error.__context__, Exception):
        error = error.__context__
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:200] + "..."
