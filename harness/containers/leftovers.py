"""What runs have left in Docker: found by the label that everything of a run bears, and removed.

A run that is killed cannot remove its containers, so the guardian does, and the next run where the guardian was killed
too. A note in the cache says that there may be something: a run on another kind of cluster never asks Docker.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.common.errors import EnvironmentFailure
from harness.containers.daemon import LABEL, connect, labels_of, translate_errors
from harness.processes.marks import is_abandoned

if TYPE_CHECKING:
    from docker import DockerClient

_log = logging.getLogger(__name__)


def note_path(cache: Path, mark: str) -> Path:
    """Where it is noted that the run of this mark may have something in Docker."""
    return cache / "docker" / mark


def remove_marked(client: "DockerClient", wanted: Callable[[str], bool]) -> list[str]:
    """Remove the containers, networks and volumes of the marks that are wanted; returns their names.

    Raises `EnvironmentFailure` if Docker refuses.
    """
    from docker.errors import NotFound

    gone: list[str] = []
    for what, thing in _marked(client):
        if not wanted(labels_of(thing)[LABEL]):
            continue
        with translate_errors(f"the {what} {thing.name} could not be removed"):
            try:
                if what == "container":
                    thing.remove(force=True, v=True)
                else:
                    thing.remove()
            except NotFound:  # somebody else was quicker
                continue
        gone.append(f"{what} {thing.name}")
    return gone


def _marked(client: "DockerClient") -> Iterator[tuple[str, Any]]:
    """Containers before the networks that they are in."""
    with_label = {"label": LABEL}
    with translate_errors("Docker could not be asked for what runs have left"):
        yield from (
            ("container", one)
            for one in client.containers.list(all=True, filters=with_label, ignore_removed=True)
        )
        yield from (("network", one) for one in client.networks.list(filters=with_label))
        yield from (("volume", one) for one in client.volumes.list(filters=with_label))


def try_remove_abandoned(cache: Path) -> list[str]:
    """As `remove_abandoned`, at the start of a run: that Docker refuses is logged, and no reason not to run."""
    try:
        return remove_abandoned(cache)
    except EnvironmentFailure as error:
        _log.warning("an earlier run may have left containers: %s", error)
        return []


def remove_abandoned(cache: Path) -> list[str]:
    """Remove what runs have left that are certainly over; returns what went. Without a note Docker is not asked.

    Raises `EnvironmentFailure` if Docker refuses.
    """
    notes = [one for one in (cache / "docker").glob("*") if is_abandoned(one.name)]
    if not notes:
        return []
    gone = remove_marked(connect(), is_abandoned)
    for one in notes:
        one.unlink(missing_ok=True)
    return gone


def removal_command(mark: str) -> list[str]:
    """The command that removes what the run of this mark has in Docker."""
    return [sys.executable, "-P", "-m", __name__, mark]


def main() -> None:
    """Remove what the run of a mark has left, whether it is certainly over or not."""
    remove_marked(connect(), lambda mark: mark == sys.argv[1])


if __name__ == "__main__":
    main()
