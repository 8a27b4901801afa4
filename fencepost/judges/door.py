"""One shared judge for a session of several processes (pytest-xdist): it is started when the first of them asks.

The session's first process opens a door, and hands its path to the others. Like all that a user's process loads, this
imports no other room of the house.
"""

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from fencepost.judges.lifetime import VARIABLE, shared_judge

ANSWER_TIMEOUT_S = 60.0


class Door:
    """Answers whoever connects with the name of the judge's socket; the judge ends when the door is closed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-door-"))
        self.path = Path(folder) / "door"
        self._listener = self._stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        self._named: str | None = None
        self._thread = threading.Thread(target=self._answer_all, name="fencepost-door", daemon=True)
        try:
            self._listener.bind(str(self.path))
            self._listener.listen()
            self._thread.start()
        except (
            OSError
        ):  # the temporary folder's name is too long for a socket: each process has its own judge
            self._stack.close()

    def close(self) -> None:
        """End the judge, if one was started."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        if self._thread.is_alive():
            self._thread.join()
        self._stack.close()

    def _answer_all(self) -> None:
        while True:
            try:
                channel, _ = self._listener.accept()
            except OSError:  # it was closed
                return
            with channel, suppress(OSError), channel.makefile("r", encoding="utf-8") as asks:
                channel.sendall(self._answer(asks.read()).encode())

    def _answer(self, question: str) -> str:
        """What whoever asks is told; a judge needs no question."""
        if self._named is None:
            self._stack.enter_context(shared_judge())
            self._named = os.environ.get(VARIABLE, "")
        return self._named


@contextmanager
def judge_behind(path: Path) -> Iterator[None]:
    """Let the runs and checks in this `with` share the judge behind a door, or else one of their own."""
    named = asked(path, "", ANSWER_TIMEOUT_S)
    if not named or os.environ.get(VARIABLE):
        with shared_judge():
            yield
        return
    os.environ[VARIABLE] = named
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)


def asked(path: Path, question: str, timeout_s: float) -> str:
    """What is answered behind a door; empty if nobody answers."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(timeout_s)
        channel.connect(str(path))
        channel.sendall(question.encode())
        channel.shutdown(socket.SHUT_WR)
        with channel.makefile("r", encoding="utf-8") as answer:
            return answer.read()
    return ""
