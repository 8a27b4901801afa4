"""The cache that runs share: what was fetched or built once, complete or not there at all.

cache/kafka-4.3.1/            complete, because it was moved here by one rename
cache/building/kafka-4.3.1/   what is being built, or what a killed build has left
cache/locks/kafka-4.3.1       held while it is built; the kernel frees it when its process ends
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
    """`$FENCEPOST_CACHE`, or the folder `fencepost` in the user's own cache; it need not exist yet."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else Path(platformdirs.user_cache_dir("fencepost"))


def provide(cache: Path, name: str, build: Callable[[Path], None], *, disk_mb: int = 0) -> Path:
    """Give the folder `cache/name`; if it is not there, have `build` fill a new folder and put that there.

    Of several processes and threads that ask at once one builds and the others wait for it. What
    `build` raises goes to the caller, and nothing stays. `disk_mb` is what the build needs at most.
    Raises `EnvironmentFailure` if the disk is too small, or if the cache cannot be written (an
    `OSError` of `build` as well: a full disk, mostly).
    """
    place = cache / name
    if place.is_dir():
        return place
    with locked(cache, name):
        if place.is_dir():
            return place
        with _translated(cache):
            require_disk(disk_mb, cache)
            rooms = cache / "building" / name
            shutil.rmtree(rooms, ignore_errors=True)  # of a build that was killed: we hold its lock
            rooms.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=rooms))  # never a name that a leftover process may write to
        try:
            with _translated(cache):
                build(folder)
                folder.chmod(0o755)
                folder.rename(place)
        finally:
            shutil.rmtree(rooms, ignore_errors=True)
    return place


@contextmanager
def locked(cache: Path, name: str) -> Iterator[None]:
    """Hold the lock of one name in the cache; waits for whoever holds it."""
    with _translated(cache):
        (cache / "locks").mkdir(parents=True, exist_ok=True)
        file = (cache / "locks" / name).open("ab")
    with file:
        with _translated(cache):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _log.info("another run prepares %s; waiting for it", name)
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
