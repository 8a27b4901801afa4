"""The connection to a Docker daemon, and its refusals in words that say what to do.

Which daemon it is, `DOCKER_HOST` and Docker's own configuration say, as for the `docker` command.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.common.errors import EnvironmentFailure
from harness.extras import require_extra

if TYPE_CHECKING:
    from docker import DockerClient

TIMEOUT_S = 60.0
THIS_MACHINE = "127.0.0.1"
LABEL = "dev.fencepost.run"
"""On every container, network and volume of a run: its mark."""
_LONGEST = 300


class NoDocker(EnvironmentFailure):
    """There is no daemon, or it does not let this user in."""


def connect() -> "DockerClient":
    """A client of the daemon, which has answered. Raises `NoDocker`, or what `require_extra` raises."""
    require_extra("--cluster docker", "docker", "testcontainers")
    # Before testcontainers is imported, which reads it then: its helper container is one more image that may not be
    # had, and what a run leaves goes by the run's own label.
    os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"
    import docker
    from docker.errors import DockerException
    from requests import RequestException

    try:
        client = docker.from_env(timeout=TIMEOUT_S)
        client.ping()
    except (DockerException, RequestException, OSError) as error:
        raise NoDocker(_why(error)) from error
    if away := refuse_remote_daemon(client.api.base_url):
        raise NoDocker(away)
    return client


def refuse_remote_daemon(base_url: str) -> str:
    """Why a daemon at that address, as the client has it, cannot be used; empty if it is this machine's."""
    host = urlsplit(base_url).hostname
    if host in (None, "localhost", "localnpipe", THIS_MACHINE):
        return ""
    where = os.environ.get("DOCKER_HOST", host)
    return (
        f"the Docker daemon at {where} is on another machine, and publishes ports on its own {THIS_MACHINE}: "
        "run Fencepost there"
    )


def platform_of(client: "DockerClient") -> tuple[str, str]:
    """System and machine of its containers, as Go names them: `linux`, `arm64`. Raises `EnvironmentFailure`."""
    with translate_errors("Docker could not be asked what it runs on"):
        told = client.version()
        return told["Os"], told["Arch"]


@contextmanager
def translate_errors(doing: str, kind: type[EnvironmentFailure] = EnvironmentFailure) -> Iterator[None]:
    """What Docker refuses becomes one sentence: `broker 1 could not be started: ...`."""
    from docker.errors import APIError, DockerException
    from requests import RequestException

    try:
        yield
    except APIError as error:
        raise kind(f"{doing}: Docker says: {shorten(error.explanation or str(error))}") from error
    except (DockerException, RequestException) as error:
        raise kind(f"{doing}: Docker does not answer: {shorten(error)}") from error


def shorten(words: object) -> str:
    """In one line, and no longer than a line of a report."""
    text = " ".join(str(words).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def labels_of(thing: Any) -> dict[str, str]:
    """A container's, a network's or a volume's."""
    attrs = thing.attrs
    found: dict[str, str] = (attrs.get("Config") or attrs).get("Labels") or {}
    return found


def _why(error: Exception) -> str:
    text = str(error)
    where = os.environ.get("DOCKER_HOST", "its default socket")
    if "Permission denied" in text or "PermissionError" in text:
        return (
            f"this user may not use the Docker daemon at {where}: add the user to the group docker, "
            "or name a daemon in DOCKER_HOST"
        )
    if any(
        one in text
        for one in ("FileNotFoundError", "ConnectionRefused", "Connection refused", "No such file")
    ):
        return f"no Docker daemon answers at {where}: start Docker, or name another daemon in DOCKER_HOST"
    return f"the Docker daemon at {where} does not answer: {shorten(text)}"
