"""Docker, asked over its socket: whether there is one, and what Fencepost has left in it."""

import http.client
import json
import os
import socket
from typing import Any

DEFAULT = "/var/run/docker.sock"
TIMEOUT_S = 10.0


class _Socket(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def ask(what: str) -> Any:
    """The answer to a GET; raises OSError where there is no Docker, or none that lets us in."""
    named = os.environ.get("DOCKER_HOST", "")
    connection = _Socket(named.removeprefix("unix://") if named.startswith("unix://") else DEFAULT)
    try:
        connection.request("GET", what)
        answer = connection.getresponse()
        body = answer.read()
    except http.client.HTTPException as error:
        raise OSError(f"what answers is no Docker: {error}") from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise OSError(f"Docker answers {what} with {answer.status}")
    return json.loads(body) if what != "/_ping" else body


def why_not() -> str | None:
    """Why there is no Docker here; None: there is one."""
    try:
        ask("/_ping")
    except OSError as error:
        return f"there is no Docker that can be reached: {error.strerror or error}"
    return None


def things_of_ours() -> set[str]:
    """Containers, networks and volumes whose name or labels say fencepost."""
    found = set()
    for kind, path, within in (
        ("container", "/containers/json?all=true", None),
        ("network", "/networks", None),
        ("volume", "/volumes", "Volumes"),
    ):
        told = ask(path)
        for one in (told.get(within) or []) if within else told:
            words = json.dumps([one.get("Names"), one.get("Name"), one.get("Labels")])
            if "fencepost" in words.lower():
                found.add(f"{kind} {one.get('Id') or one.get('Name')}")
    return found
