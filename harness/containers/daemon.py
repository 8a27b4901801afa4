"""Connect to a Docker daemon, and turn its errors into messages that say what to do.

The daemon is chosen by `DOCKER_HOST` and Docker's configuration, as for the `docker` command.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.common.errors import EnvironmentFailure, require_extra

if TYPE_CHECKING:
    from docker import DockerClient

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
