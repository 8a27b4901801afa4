"""Connect to a Docker daemon, put its errors into words, and remove what killed runs have left on it.

The daemon is chosen by `DOCKER_HOST` and Docker's configuration, as for the `docker` command.

If a run is killed, its guardian removes its containers. If the guardian is killed too, the next run removes them. A
note file in the cache says that a run may have left something. Without a note file, a run does not ask Docker.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.common.errors import EnvironmentFailure, require_extra
from harness.processes.guardian import is_abandoned

if TYPE_CHECKING:
    from docker import DockerClient

_log = logging.getLogger(__name__)

TIMEOUT_S = 60.0
THIS_MACHINE = "127.0.0.1"
LABEL = "dev.fencepost.run"
"""The label of every container, network and volume of a run. Its value is the run's mark."""
_LONGEST = 300


class NoDocker(EnvironmentFailure):
    """There is no daemon, or Fencepost cannot use it."""


def connect() -> "DockerClient":
    """Connect to the daemon, and check that it answers. Raises `NoDocker`, or `require_extra`'s error."""
    require_extra("--cluster docker", "docker", "testcontainers")
    # testcontainers reads this when it is imported. Its helper container would need one more image. A run does not
    # need it, because it removes its containers by their label.
    os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"
    import docker
    from docker.errors import DockerException
    from requests import RequestException

    try:
        client = docker.from_env(timeout=TIMEOUT_S)
        client.ping()
    except (DockerException, RequestException, OSError) as error:
        raise NoDocker(_explain(error)) from error
    if refusal := refuse_remote_daemon(client.api.base_url):
        raise NoDocker(refusal)
    return client


def refuse_remote_daemon(base_url: str) -> str:
    """Return why a daemon at this address cannot be used, or "" if it is on this machine."""
    host = urlsplit(base_url).hostname
    if host in (None, "localhost", "localnpipe", THIS_MACHINE):
        return ""
    daemon_address = os.environ.get("DOCKER_HOST", host)
    return (
        f"the Docker daemon at {daemon_address} is on another machine, and publishes ports on its own {THIS_MACHINE}: "
        "run Fencepost on that machine"
    )


def platform_of(client: "DockerClient") -> tuple[str, str]:
    """Return system and CPU of its containers in Go's terms: `linux`, `arm64`. Raises `EnvironmentFailure`."""
    with translate_errors("Docker's platform could not be read"):
        version = client.version()
        return version["Os"], version["Arch"]


@contextmanager
def translate_errors(failure: str, kind: type[EnvironmentFailure] = EnvironmentFailure) -> Iterator[None]:
    """Raise errors of Docker as `kind`, in one sentence: `broker 1 could not be started: Docker says: ...`."""
    from docker.errors import APIError, DockerException
    from requests import RequestException

    try:
        yield
    except APIError as error:
        raise kind(f"{failure}: Docker says: {shorten(error.explanation or str(error))}") from error
    except (DockerException, RequestException) as error:
        raise kind(f"{failure}: Docker does not answer: {shorten(error)}") from error


def shorten(value: object) -> str:
    """Return a text on one line, with at most 300 characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def labels_of(resource: Any) -> dict[str, str]:
    """Return the labels of a container, a network or a volume."""
    attrs = resource.attrs
    labels: dict[str, str] = (attrs.get("Config") or attrs).get("Labels") or {}
    return labels


def _explain(error: Exception) -> str:
    text = str(error)
    daemon_address = os.environ.get("DOCKER_HOST", "its default socket")
    if "Permission denied" in text or "PermissionError" in text:
        return (
            f"this user may not use the Docker daemon at {daemon_address}: add the user to the group docker, "
            "or name a daemon in DOCKER_HOST"
        )
    if any(
        reason in text
        for reason in ("FileNotFoundError", "ConnectionRefused", "Connection refused", "No such file")
    ):
        return f"no Docker daemon answers at {daemon_address}: start Docker, or name another daemon in DOCKER_HOST"
    return f"the Docker daemon at {daemon_address} does not answer: {shorten(text)}"


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
