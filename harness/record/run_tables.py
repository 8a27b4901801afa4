"""The folder of a run, and the store that runs are kept in."""

import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from harness.common.errors import EnvironmentFailure

LATEST = "latest"
PLAN = "run.toml"
"""The first file of a run; it is locked as long as the run goes on, and by no one who has died."""


def create_run_folder(store: Path, name: str, started: datetime) -> Path:
    """Make the folder of a run that starts now. Raises `EnvironmentFailure` where nothing can be written."""
    return create_folder(store, name, started, ("journals",))


def create_folder(store: Path, name: str, started: datetime, within: Iterable[str] = ()) -> Path:
    """Make a folder in the store, with folders in it: two that start in the same second do not meet.

    Raises `EnvironmentFailure` where nothing can be written.
    """
    stamp = started.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    try:
        (store / name).mkdir(parents=True, exist_ok=True)
        for n in range(1, 1000):
            folder = store / name / (stamp if n == 1 else f"{stamp}-{n}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            for inner in within:
                (folder / inner).mkdir()
            return folder
    except OSError as error:
        raise EnvironmentFailure(
            f"the store {store} cannot be written: {error}; give another with --store"
        ) from error
    raise EnvironmentFailure(f"{store / name} holds a thousand runs of {stamp}")


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """For the length of a `with`, the run is one that is not to be judged by others."""
    with (folder / PLAN).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_running(folder: Path) -> bool:
    """Whether a run is still going on; False where nobody can say, as where there is no plan."""
    try:
        with (folder / PLAN).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def update_latest_link(store: Path, folder: Path) -> None:
    """Have `store/latest` point to a run, replaced in one step."""
    link = store / f".{LATEST}-{os.getpid()}-{secrets.token_hex(4)}"
    link.symlink_to(os.path.relpath(folder, store))
    link.replace(store / LATEST)
