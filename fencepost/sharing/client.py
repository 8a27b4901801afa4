"""The client of the shared server. Each request is a connection to a Unix socket, with lines of JSON.

    {"spark": {"parts": {...}, "runs": [...], "allow": [...]}}   check these stored runs; without runs, only start Spark
    {"cluster": ["--set", "brokers=5", ...]}                     start the cluster of the session if there is none

The server answers with any number of lines `{"progress": TEXT}`. The last line is the answer, or
`{"refused": WHY, "status": N}`. This module imports no other package of Fencepost, because it is loaded into a user's
process.
"""

import json
import os
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MESSAGE_FILE = "last-words"
"""File in the folder of the socket. It says why the server did not start, or why it ended."""


class ServerRefused(Exception):
    """The server refused the request or did not answer. `status` is the exit status that a command would have."""

    def __init__(self, why: str, status: int = 4) -> None:
        super().__init__(why)
        self.status = status


def send_request(
    path: Path, request: Mapping[str, Any], progress: Callable[[str], None], timeout_s: float | None = None
) -> dict[str, Any]:
    """Send a request, pass each line of progress on, and return the answer. Raises `ServerRefused`.

    `timeout_s` limits the wait for each line. None: no limit.
    """
    try:
        with _connect(path, timeout_s) as channel:
            channel.sendall(json.dumps(request).encode() + b"\n")
            with channel.makefile("r", encoding="utf-8") as lines:
                for line in lines:
                    body: dict[str, Any] = json.loads(line)
                    if "refused" in body:
                        raise ServerRefused(body["refused"], body.get("status", 4))
                    if "progress" not in body:
                        return body
                    progress(body["progress"])
    except (OSError, ValueError) as error:  # ValueError: the server ended in the middle of a line
        raise ServerRefused(_end_message(path) or f"the shared server does not answer: {error}") from error
    raise ServerRefused(_end_message(path) or "the shared server ended without an answer")


def can_connect(path: Path) -> bool:
    """Return True if a connection succeeds. If the server starts with its first client, this starts it."""
    try:
        with _connect(path, None):
            return True
    except OSError:
        return False


LONGEST_NAME = 100
"""Bytes in the name of a socket. macOS permits 103, Linux 107."""


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """Yield a name of the socket that is short enough. A longer path needs `/proc`, which only Linux has."""
    if len(os.fsencode(path)) <= LONGEST_NAME:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


@contextmanager
def _connect(path: Path, timeout_s: float | None) -> Iterator[socket.socket]:
    """Connect. Raises `OSError`, also if another user could have made the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel, short_name(path) as name:
        folder = path.parent.stat()
        if folder.st_uid != os.getuid() or stat.S_IMODE(folder.st_mode) & 0o077:
            raise PermissionError(f"{path.parent} is open to others")
        channel.settimeout(timeout_s)
        channel.connect(name)
        yield channel


def _end_message(path: Path) -> str:
    try:
        return path.with_name(MESSAGE_FILE).read_text(encoding="utf-8")
    except OSError:
        return ""
