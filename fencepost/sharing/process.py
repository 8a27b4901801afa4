"""The life of the shared server: the process that starts it, and the variable that names its socket.

Like all that a user's process loads, this imports no other room.
"""

import os
import select
import shlex
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from fencepost.api import MESSAGE_FILE_VARIABLE, command
from fencepost.sharing.client import MESSAGE_FILE, short_name

SERVER_VARIABLE = "FENCEPOST_SHARED"
"""Names the socket of the server whose Spark runs and checks may share."""
END_TIMEOUT_S = 60.0


class SharedServer:
    """A server for the length of a `with`. It ends with this process too, whatever ends that.

    Its socket is in a folder that only its owner can open. The server itself starts Spark or a cluster when a client
    first asks for one. This process opens the socket and the server inherits it, as with inetd, so clients can connect
    at once. `lazy`: start the server when the first client connects.
    """

    def __init__(self, *, lazy: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fencepost-shared-", ignore_cleanup_errors=True)
        self.path = Path(self._folder.name) / "socket"
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_name(self.path) as name:
            self._listener.bind(name)
        self._listener.listen()
        self._waiting = threading.Thread(target=self._start_for_client, name="fencepost", daemon=True)
        if lazy:
            self._waiting.start()
        else:
            self._start()

    def __enter__(self) -> "SharedServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server, if it was started, and wait until it has removed what it made."""
        self._closing = True
        with suppress(OSError):  # the server has it
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        if self._waiting.is_alive():
            self._waiting.join()
        self._listener.close()
        if self._process is not None:
            _end(self._process)
        self._folder.cleanup()

    def _start_for_client(self) -> None:
        select.select([self._listener], [], [])
        if not self._closing:
            self._start()

    def _start(self) -> None:
        """Start it. Where that fails, the clients find the reason in a file."""
        last_words = self.path.with_name(MESSAGE_FILE)
        with (
            self._listener as listener
        ):  # from now on the server's alone: after its end no client waits for it
            words = [*command(), "_serve", str(self.path), str(listener.fileno())]
            try:  # in a session of its own: Ctrl-C is for this process
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(listener.fileno(),),
                    env={**os.environ, MESSAGE_FILE_VARIABLE: str(last_words)},
                    start_new_session=True,
                )
            except OSError as error:
                last_words.write_text(
                    f"`{shlex.join(command())}` cannot be started: {error}", encoding="utf-8"
                )


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # it has ended before
        process.stdin.write(b"end\n")  # a child that was forked meanwhile may hold this pipe open
        process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()  # a guardian ends the cluster, and Spark ends by itself
        process.wait()


@contextmanager
def shared_judge() -> Iterator[None]:
    """Let one Spark decide every `run` and `check` in this `with`. After the first one, verdicts come sooner and use
    less of the machine.

    Spark starts when it is first needed. It ends with this `with`, or with this process, whatever ends that. A run
    that needs another Java, other Spark settings or more memory starts a Spark of its own, as without a shared one.
    """
    if os.environ.get(SERVER_VARIABLE):
        yield  # there is one already
        return
    with SharedServer() as server, server_in_environment(server.path):
        yield


@contextmanager
def server_in_environment(path: Path) -> Iterator[None]:
    """Let the runs and checks that are started in this `with` share the Spark of this server."""
    os.environ[SERVER_VARIABLE] = str(path)
    try:
        yield
    finally:
        os.environ.pop(SERVER_VARIABLE, None)
