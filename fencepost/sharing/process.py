"""Start and end the shared server, and name its socket in the environment.

This module imports no other package of Fencepost, because it is loaded into a user's process.
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
"""Environment variable with the path of the socket. Runs and checks use the Spark of that server."""
END_TIMEOUT_S = 60.0


class SharedServer:
    """Runs a server for the duration of a `with` block. The server also ends when this process ends in any way.

    The socket is in a folder that only its owner can open. The server starts Spark or a cluster when a client first
    needs one. This process opens the socket and the server inherits it, as with inetd, so clients can connect at once.

    Args:
        lazy: Start the server when the first client connects.
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
        """End the server if it was started. Wait until it has cleaned up."""
        self._closing = True
        with suppress(OSError):  # the server took it over
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
        """Start the server. If that fails, write the reason to a file for the clients."""
        message_file = self.path.with_name(MESSAGE_FILE)
        # The socket is closed after the start, so that clients do not wait after the server has ended.
        with self._listener as listener:
            words = [*command(), "_serve", str(self.path), str(listener.fileno())]
            try:  # in a new session, so that Ctrl-C reaches only this process
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(listener.fileno(),),
                    env={**os.environ, MESSAGE_FILE_VARIABLE: str(message_file)},
                    start_new_session=True,
                )
            except OSError as error:
                message_file.write_text(
                    f"`{shlex.join(command())}` cannot be started: {error}", encoding="utf-8"
                )


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # the server has ended already
        process.stdin.write(b"end\n")  # closing is not enough: a forked child may hold the pipe open
        process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()  # a guardian ends the cluster, and Spark ends by itself
        process.wait()


@contextmanager
def shared_spark() -> Iterator[None]:
    """Use one Spark for every `run` and `check` in this `with` block.

    After the first verdict, the others come sooner and need less CPU and memory. Spark starts when it is first needed.
    It ends with the `with` block, or when this process ends in any way. A run that needs another Java, other Spark
    settings or more memory starts its own Spark.
    """
    if os.environ.get(SERVER_VARIABLE):
        yield  # a shared server exists already
        return
    with SharedServer() as server, server_in_environment(server.path):
        yield


@contextmanager
def server_in_environment(path: Path) -> Iterator[None]:
    """Let runs and checks that start in this `with` block use the Spark of this server."""
    os.environ[SERVER_VARIABLE] = str(path)
    try:
        yield
    finally:
        os.environ.pop(SERVER_VARIABLE, None)
