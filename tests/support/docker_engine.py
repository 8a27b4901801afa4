"""Queries to the Docker daemon over its socket: whether it answers, and which objects of Fencepost it has."""

import http.client
import json
import os
import socket
from typing import Any

DEFAULT_SOCKET = "/var/run/docker.sock"
TIMEOUT_S = 10.0


class _Socket(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def get(path: str) -> Any:
    """Send a GET request and return the decoded body.

    Raises:
        OSError: No Docker daemon answers, or it refuses the request.
    """
    host = os.environ.get("DOCKER_HOST", "")
    connection = _Socket(host.removeprefix("unix://") if host.startswith("unix://") else DEFAULT_SOCKET)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except http.client.HTTPException as error:
        raise OSError(f"the server at the socket is not Docker: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise OSError(f"Docker answers {path} with {response.status}")
    return json.loads(body) if path != "/_ping" else body


def unavailable_reason() -> str | None:
    """Why no Docker daemon can be used; None if one answers."""
    try:
        get("/_ping")
    except OSError as error:
        return f"there is no Docker that can be reached: {error.strerror or error}"
    return None


def list_fencepost_objects() -> set[str]:
    """Containers, networks and volumes whose name or labels contain "fencepost"."""
    objects = set()
    for kind, path, within in (
        ("container", "/containers/json?all=true", None),
        ("network", "/networks", None),
        ("volume", "/volumes", "Volumes"),
    ):
        answer = get(path)
        for entry in (answer.get(within) or []) if within else answer:
            text = json.dumps([entry.get("Names"), entry.get("Name"), entry.get("Labels")])
            if "fencepost" in text.lower():
                objects.add(f"{kind} {entry.get('Id') or entry.get('Name')}")
    return objects
