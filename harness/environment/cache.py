"""The cache that runs share. It contains fetched and built files. An entry is complete, or it does not exist.

cache/kafka-4.4.0/            complete, because one rename moved it here
cache/building/kafka-4.4.0/   a build in progress, or the files that a killed build left
cache/locks/kafka-4.4.0       locked during the build; the kernel frees the lock when the process ends
"""

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from harness.common.errors import EnvironmentFailure
from harness.environment.resources import require_disk

VARIABLE = "FENCEPOST_CACHE"
_log = logging.getLogger(__name__)


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
