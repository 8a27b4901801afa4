"""Find and remove what killed runs have left in Docker, by the label of their containers and networks.

If a run is killed, its guardian removes its containers. If the guardian is killed too, the next run does. A note file
in the cache says that a run may have left something, so a run on another kind of cluster does not ask Docker.
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
    """Return the path of the note file which says that the run of this mark may have something in Docker."""
    return cache / "docker" / mark


def remove_marked(client: "DockerClient", is_wanted: Callable[[str], bool]) -> list[str]:
    """Remove containers, networks and volumes with a mark for which `is_wanted` holds. Return their names.

    Raises `EnvironmentFailure` if Docker refuses.
    """
    from docker.errors import NotFound

    removed: list[str] = []
    for kind, resource in _list_marked(client):
        if not is_wanted(labels_of(resource)[LABEL]):
            continue
        with translate_errors(f"the {kind} {resource.name} could not be removed"):
            try:
                if kind == "container":
                    resource.remove(force=True, v=True)
                else:
                    resource.remove()
            except NotFound:  # another process has removed it
                continue
        removed.append(f"{kind} {resource.name}")
    return removed


def _list_marked(client: "DockerClient") -> Iterator[tuple[str, Any]]:
    """Yield kind and resource. Containers come before the networks that they are connected to."""
    with_label = {"label": LABEL}
    with translate_errors("the containers that runs have left could not be listed"):
        yield from (
            ("container", container)
            for container in client.containers.list(all=True, filters=with_label, ignore_removed=True)
        )
        yield from (("network", network) for network in client.networks.list(filters=with_label))
        yield from (("volume", volume) for volume in client.volumes.list(filters=with_label))


def try_remove_abandoned(cache: Path) -> list[str]:
    """Do the same as `remove_abandoned`, but only log an error of Docker. For the start of a run."""
    try:
        return remove_abandoned(cache)
    except EnvironmentFailure as error:
        _log.warning("an earlier run may have left containers: %s", error)
        return []


def remove_abandoned(cache: Path) -> list[str]:
    """Remove what runs have left that have certainly ended. Return the names of what was removed.

    If there is no note file, Docker is not asked. Raises `EnvironmentFailure` if Docker refuses.
    """
    notes = [path for path in (cache / "docker").glob("*") if is_abandoned(path.name)]
    if not notes:
        return []
    removed = remove_marked(connect(), is_abandoned)
    for path in notes:
        path.unlink(missing_ok=True)
    return removed


def removal_command(mark: str) -> list[str]:
    """Return the command that removes everything of this run from Docker."""
    return [sys.executable, "-P", "-m", __name__, mark]


def main() -> None:
    """Remove everything of the run with the mark in the first argument, even if it may still go on."""
    remove_marked(connect(), lambda mark: mark == sys.argv[1])


if __name__ == "__main__":
    main()
