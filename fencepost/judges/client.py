"""Asking the shared judge, if there is one."""

import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fencepost.judges.lifetime import VARIABLE
from fencepost.judges.protocol import Request, answer_from_json, short_name
from harness.errors import FencepostError
from harness.verdict import Verdict

READY_TIMEOUT_S = 5.0


class Refused(Exception):
    """The shared judge does not judge this: the message says why."""


class Client:
    """A shared judge, by its socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get_ready(self, request: Request) -> None:
        """Have it start Spark, if it has none yet; raises `Refused`."""
        self.judge(request, lambda name: None)

    def judge(self, request: Request, phase: Callable[[str], None]) -> list[Verdict | FencepostError]:
        """A verdict for each run, or why there is none; `phase` is told what begins. Raises `Refused`."""
        for told in self._told(request):
            if "answers" in told:
                return [answer_from_json(answer) for answer in told["answers"]]
            phase(told["phase"])
        raise Refused("the shared judge ended without an answer")

    def _told(self, request: Request) -> Iterator[dict[str, Any]]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            try:
                if not request.runs:  # a run asks this in the midst of watching over its faults
                    channel.settimeout(READY_TIMEOUT_S)
                self._connect(channel)
                channel.sendall(json.dumps(request.as_json()).encode() + b"\n")
                with channel.makefile("r", encoding="utf-8") as lines:
                    for line in lines:
                        told: dict[str, Any] = json.loads(line)
                        if "refused" in told:
                            raise Refused(told["refused"])
                        yield told
            except (OSError, ValueError) as error:  # a line that is cut off is no JSON
                raise Refused(f"the shared judge does not answer: {error}") from error

    def _connect(self, channel: socket.socket) -> None:
        """Raises `OSError`; a socket of somebody else is none."""
        with short_name(self._path) as name:
            folder = self._path.parent.stat()
            if folder.st_uid != os.getuid() or stat.S_IMODE(folder.st_mode) & 0o077:
                raise PermissionError(f"{self._path.parent} is open to others")
            channel.connect(name)


def shared_client() -> Client | None:
    """The shared judge that the environment names."""
    named = os.environ.get(VARIABLE)
    return Client(Path(named)) if named else None
