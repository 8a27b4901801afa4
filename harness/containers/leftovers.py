"""Find and remove the containers, networks and volumes of killed runs, by their label.

If a run is killed, its guardian removes its containers. If the guardian is killed too, the next run removes them. A
note file in the cache says that a run may have left something. Without a note file, a run does not ask Docker.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.common.errors import EnvironmentFailure
from harness.containers.daemon import LABEL, connect, labels_of, translate_errors
from harness.processes.guardian import is_abandoned

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
    with translate_errors("the containers of earlier runs could not be listed"):
        yield from (
            ("container", container)
            for container in client.containers.list(all=True, filters=with_label, ignore_removed=True)
        )
        yield from (("network", network) for network in client.networks.list(filters=with_label))
        yield from (("volume", volume) for volume in client.volumes.list(filters=with_label))


def try_remove_abandoned(cache: Path) -> list[str]:
    """Call `remove_abandoned` at the start of a run. An error of Docker is only logged."""
    try:
        return remove_abandoned(cache)
    except EnvironmentFailure as error:
        _log.warning("an earlier run may have left containers: %s", error)
        return []


def remove_abandoned(cache: Path) -> list[str]:
    """Remove the containers, networks and volumes of runs that have certainly ended. Return their names.

    Docker is asked only if there is a note file of such a run. Raises `EnvironmentFailure` if Docker refuses.
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
    """Remove everything of the run whose mark is the first argument, even if this run may still be running."""
    remove_marked(connect(), lambda mark: mark == sys.argv[1])


if __name__ == "__main__":
    main()
