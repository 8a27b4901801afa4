"""The cache that runs share, and the processes that build its entries.

cache/kafka-4.4.0/            complete, because one rename moved it here cache/building/kafka-4.4.0/   a build in
progress, or the files that a killed build left cache/locks/kafka-4.4.0       locked during the build; the kernel frees
the lock when the process ends
"""

import fcntl
import logging
import os
import platform
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import platformdirs

from harness.common.errors import EnvironmentFailure
from harness.environment.resources import require_disk
from harness.processes.child import Child
from harness.processes.spawn import Supervisor

_log = logging.getLogger(__name__)

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
VARIABLE = "FENCEPOST_CACHE"


@dataclass(frozen=True)
class Platform:
    """A system and a machine, with the names that Go and Docker use."""

    system: str  # linux, darwin
    machine: str  # amd64, arm64

    def __str__(self) -> str:
        return f"{self.system}/{self.machine}"

    @classmethod
    def of_this_machine(cls) -> "Platform":
        """Return the platform of this machine."""
        machine = platform.machine().lower()
        return cls(platform.system().lower(), _MACHINES.get(machine, machine))


class Builder:
    """A context manager that starts processes, and ends them when the `with` block ends."""

    def __init__(self) -> None:
        self._supervisor: Supervisor | None = None
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> "Builder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            self._stack.close()

    def spawn(
        self,
        args: Sequence[str | Path],
        *,
        name: str,
        log_file: Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
    ) -> Child:
        """Start a process. Raises `StartFailed`, and `EnvironmentFailure` after the `with` block has ended."""
        with self._lock:
            if self._closed:
                raise EnvironmentFailure(f"{name} was not started: the run is ending")
            if self._supervisor is None:
                self._supervisor = self._stack.enter_context(Supervisor())
            return self._supervisor.spawn(args, name=name, log_file=log_file, cwd=cwd, env=env)


def cache_folder() -> Path:
    """Return `$FENCEPOST_CACHE`, or the folder `fencepost` in the user's cache. It need not exist yet."""
    folder = os.environ.get(VARIABLE)
    return Path(folder).expanduser().absolute() if folder else Path(platformdirs.user_cache_dir("fencepost"))


def provide(cache: Path, name: str, build: Callable[[Path], None], *, disk_mb: int = 0) -> Path:
    """Return the folder `cache/name`. If it does not exist, `build` fills a new folder, which is then moved there.

    If several processes or threads call this at once, one builds and the others wait. If `build` raises an exception,
    its files are removed, and the caller gets the exception.

    Args:
        disk_mb: the disk space that the build needs.

    Raises:
        EnvironmentFailure: the disk is too small, or the cache cannot be written. An `OSError` of `build` is translated
            to this, because it mostly means a full disk.
    """
    entry = cache / name
    if entry.is_dir():
        return entry
    with locked(cache, name):
        if entry.is_dir():
            return entry
        with _translated(cache):
            require_disk(disk_mb, cache)
            parent = cache / "building" / name
            shutil.rmtree(
                parent, ignore_errors=True
            )  # a killed build left it, because this process has the lock
            parent.mkdir(parents=True, exist_ok=True)
            # A new name, because a process of the killed build may still write to an old one.
            folder = Path(tempfile.mkdtemp(dir=parent))
        try:
            with _translated(cache):
                build(folder)
                folder.chmod(0o755)
                folder.rename(entry)
        finally:
            shutil.rmtree(parent, ignore_errors=True)
    return entry


@contextmanager
def locked(cache: Path, name: str) -> Iterator[None]:
    """Lock a name of the cache inside a `with` block. Waits while another process has the lock."""
    with _translated(cache):
        (cache / "locks").mkdir(parents=True, exist_ok=True)
        file = (cache / "locks" / name).open("ab")
    with file:
        with _translated(cache):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _log.info("another run is preparing %s; waiting for it", name)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _translated(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvironmentFailure(
            f"the cache folder {cache} cannot be used ({error}): "
            f"make it writable, or name another one in the environment variable {VARIABLE}"
        ) from error
