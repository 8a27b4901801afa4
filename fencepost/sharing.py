"""The client of the server that runs and checks share. The server has one Spark and one Kafka cluster.

    {"spark": {"parts": {...}, "runs": [...], "allow": [...]}}   check these stored runs; without runs, only start Spark
    {"cluster": ["--set", "brokers=5", ...]}                     start the cluster of the session if there is none

The server answers with any number of lines `{"progress": TEXT}`. The last line is the answer, or `{"refused": WHY,
"status": N}`. This module imports no other package of Fencepost, because it is loaded into a user's process.
"""

import json
import os
import select
import shlex
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from fencepost.api import MESSAGE_FILE_VARIABLE, FencepostFailed, Result, command, option_words

MESSAGE_FILE = "last-words"
"""File in the folder of the socket. It says why the server did not start, or why it ended."""
SERVER_VARIABLE = "FENCEPOST_SHARED"
"""Environment variable with the path of the socket. Runs and checks use the Spark of that server."""
END_TIMEOUT_S = 60.0


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


@dataclass(frozen=True)
class SharedCluster:
    """A cluster that several runs use.

    Each run has its own topics, groups and transactional ids, whose names begin with its tag. They are removed at
    its end.
    """

    bootstrap: str
    cluster: str  # the cluster kind
    kafka: str
    more: Sequence[str] = ()  # other options that describe the cluster, as arguments of a command

    @property
    def options(self) -> Mapping[str, str]:
        """The options of a run on this cluster."""
        return {"cluster": "external", "bootstrap": self.bootstrap}

    def result(self, result: Result) -> Result:
        """The result of a run on this cluster. `repeat` starts a new cluster, as this one ends with the session."""
        return _SharedClusterResult(result.valid, result.exit_status, result.verdict, result.folder, self)


@dataclass(frozen=True)
class _SharedClusterResult(Result):
    shared: SharedCluster

    @property
    def repeat(self) -> str | None:
        """The command that repeats the run on a new cluster."""
        repeat = super().repeat
        faults = [_as_option(fault) for fault in (self.verdict or {}).get("faults", ())]
        return repeat and command_on_own_cluster(repeat, self.shared, list(dict.fromkeys(faults)))


def _as_option(fault: Mapping[str, Any]) -> str:
    """A fault as `--nemesis` names it, with the state of the transaction in which it was injected."""
    state = (fault.get("details") or {}).get("state")
    return f"{fault.get('fault')}@{state}" if state else str(fault.get("fault"))


def command_on_own_cluster(command: str, shared: SharedCluster, faults: Sequence[str] = ()) -> str:
    """Change the command of a run on `shared` into one that starts an equal cluster.

    A local cluster permits more faults. If the run drew its faults, the new command therefore names them.
    """
    words = shlex.split(command)
    for name in ("--cluster", "bootstrap", "permits", "prefix", "client-config"):
        for n, word in enumerate(words):
            if word == name or (word == "--set" and words[n + 1].startswith(f"{name}=")):
                del words[n : n + 2]
                break
    if faults and "--nemesis" not in words:
        words += ["--nemesis", ",".join(faults)]
    return shlex.join([*words, *shared.more, "--kafka", shared.kafka])


def shared_cluster(path: Path, options: Mapping[str, Any]) -> SharedCluster:
    """The cluster of the server with this socket. The first call starts it. It ends with the server.

    `options` are the options of `fencepost run` that describe a cluster: kafka, brokers, broker, heap_mb, ... Raises
    `FencepostFailed` with the message of the command.
    """
    try:
        answer = send_request(path, {"cluster": option_words(dict(sorted(options.items())))}, _show)
    except ServerRefused as error:
        raise FencepostFailed(error.status, str(error)) from None
    return SharedCluster(**answer["cluster"])


def _show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
