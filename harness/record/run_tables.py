"""Creates and locks run folders in the store of runs."""

import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from harness.common.errors import EnvironmentFailure, UnreadableInput

LATEST = "latest"
PLAN = "run.toml"
"""The first file of a run.

The process of the run holds a lock on it, which the system releases when the process ends.
"""


def create_run_folder(store: Path, name: str, started: datetime) -> Path:
    """Create the folder of a new run. Raises `EnvironmentFailure` if the store cannot be written."""
    return create_folder(store, name, started, ("journals",))


def create_folder(store: Path, name: str, started: datetime, within: Iterable[str] = ()) -> Path:
    """Create a folder in the store, with the subfolders `within`. Its name is the start time, made unique by a number.

    Raises `EnvironmentFailure` if the store cannot be written.
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
            f"the store {store} cannot be written: {error}; choose another one with --store"
        ) from error
    raise EnvironmentFailure(
        f"{store / name} already has a thousand folders for {stamp}: start again one second later"
    )


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Mark the run as running inside a `with` block, so that other processes do not check it."""
    with (folder / PLAN).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_running(folder: Path) -> bool:
    """Return whether a run is still running. Return False if this is not known, for example without a `run.toml`."""
    try:
        with (folder / PLAN).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def require_ended(folder: Path) -> None:
    """Raise `UnreadableInput` if a run is still running."""
    if is_running(folder):
        raise UnreadableInput(f"{folder} is a run that has not ended: wait for its end, or name another run")


def require_verdict(folder: Path) -> None:
    """Raise `UnreadableInput` if a run has no verdict."""
    if not (folder / "verdict.json").exists():
        require_ended(folder)
        raise UnreadableInput(f"{folder} has no verdict yet: run `fencepost check {folder}` first")


def update_latest_link(store: Path, folder: Path) -> None:
    """Make `store/latest` link to a run. The link is replaced atomically."""
    link = store / f".{LATEST}-{os.getpid()}-{secrets.token_hex(4)}"
    link.symlink_to(os.path.relpath(folder, store))
    link.replace(store / LATEST)
