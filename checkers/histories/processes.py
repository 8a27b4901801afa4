"""Call functions in processes of this machine, one a processor, for histories that are in local files.

Spark's tasks would give the same results. But each of them moves its rows through the JVM twice, and the first job of a
session waits for a cold JVM. So Spark computes only what these functions leave over, and all of it if workers on other
machines have to help.

    python -m checkers.histories.processes FOLDER

reads pickled calls from standard input, and writes pickled answers to standard output. When its standard input ends, it
removes the folder, which has all results, and ends. So neither outlives the process that started it. Threads would not
do: most of the work holds the interpreter's lock.
"""

import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import IO, Any, TypeVar

from pyspark.cloudpickle import dumps

from harness.common.errors import AnalysisFailed, FencepostError, UnreadableInput

T = TypeVar("T")
COUNT = os.cpu_count() or 1
PREFIX = "fencepost-history-"
LENGTH = struct.Struct("Q")
"""What stands before each call."""
NEEDED = "checkers.histories.tables"
"""The module that a process imports before its first call. It imports what calls need."""


class DamagedFile(ValueError):
    """A part of a file cannot be read."""

    def __init__(self, path: str, error: str) -> None:
        super().__init__(path, error)
        self.path, self.error = path, error

    def __str__(self) -> str:
        return f"error while reading file {self.path}: {self.error}"


class Processes:
    """Processes that wait for calls. They start when this object is made."""

    def __init__(self, count: int) -> None:
        self.folder = tempfile.mkdtemp(prefix=PREFIX)
        self._calls: SimpleQueue[tuple[Future[Any], bytes]] = SimpleQueue()
        self._workers = [_Worker(self.folder) for _ in range(count)]
        for worker in self._workers:
            Thread(target=self._serve, args=[worker], daemon=True, name="history-process").start()

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """Call a function as soon as a process is free. The calls are taken in their order."""
        future: Future[T] = Future()
        self._calls.put((future, dumps(call)))  # type: ignore[no-untyped-call]
        return future

    def _serve(self, worker: "_Worker") -> None:
        while True:
            future, call = self._calls.get()
            try:
                future.set_result(worker.answer(call))
            except Exception as error:  # noqa: BLE001 - whoever waits for the answer gets it
                future.set_exception(error)

    def kill(self) -> None:
        """End the processes. Calls that wait, and later ones, fail."""
        for worker in self._workers:
            worker.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class _Worker:
    """One process, from the side that started it."""

    def __init__(self, folder: str) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
        # Its own session, so that Ctrl-C in a terminal does not reach it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "checkers.histories.processes", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )

    def answer(self, call: bytes) -> Any:
        """Return the result of a call. Raises `AnalysisFailed`, or `UnreadableInput` for a damaged file."""
        stdin, stdout = _pipe(self._process.stdin), _pipe(self._process.stdout)
        try:
            stdin.write(LENGTH.pack(len(call)))
            stdin.write(call)
            stdin.flush()
            done, value = pickle.load(stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise AnalysisFailed(self._why_ended()) from None
        if not done:
            raise value
        return value

    def _why_ended(self) -> str:
        self.kill()
        status = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        why = lines[-1] if lines else f"status {status}"
        memory = ", perhaps because the machine has too little memory" if status == -9 else ""
        return f"a process that checked a part of a history has ended{memory}: {why}"

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


_lock = Lock()
_shared: list[Processes] = []
_users = 0


def processes() -> Processes:
    """Return the processes that all checks of this process share. They start at the first call."""
    with _lock:
        if not _shared:
            _shared.append(Processes(COUNT))
        return _shared[0]


def end_processes() -> None:
    """End the shared processes, if there are any. The next call starts new ones."""
    with _lock:
        while _shared:
            _shared.pop().kill()


@contextmanager
def using_processes() -> Iterator[None]:
    """Context manager: the shared processes end with the last of these blocks."""
    global _users  # noqa: PLW0603
    with _lock:
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            last = not _users
        if last:
            end_processes()


def new_folder(*, here: bool) -> "tempfile.TemporaryDirectory[str]":
    """Return a folder for the results of `make_all`. If this process is killed, the others remove it."""
    return tempfile.TemporaryDirectory(prefix=PREFIX, dir=None if here else processes().folder)


def share(value: T, path: Path) -> Callable[[], T]:
    """Write a value to a file. Returns a function for calls, which returns it. A process reads the last one once."""
    path.write_bytes(dumps(value))  # type: ignore[no-untyped-call]
    return partial(_shared_value, str(path))


@lru_cache(maxsize=1)
def _shared_value(path: str) -> Any:
    return pickle.loads(Path(path).read_bytes())


def make_all(calls: Sequence[Callable[[], T]], *, here: bool) -> Callable[[], list[T]]:
    """Begin to call all functions. Returns a function that waits for their results, in their order.

    Args:
        here: that function calls them in this process, because they take less time than the start of another

    The function that is returned raises:
        UnreadableInput: a file is damaged.
        AnalysisFailed: a call failed, or its process ended.
    """
    if here:
        return lambda: [_called(call) for call in calls]
    futures = [processes().submit(call) for call in calls]
    return lambda: [future.result() for future in futures]


def _called(call: Callable[[], T]) -> T:
    """Return the result of a call. Its errors become those that a check reports."""
    try:
        return call()
    except FencepostError:
        raise
    except DamagedFile as error:
        raise UnreadableInput(f"{error.path} is damaged: a part of it cannot be read") from error
    except MemoryError as error:
        raise AnalysisFailed("the analysis failed: this machine has too little memory") from error
    except Exception as error:
        raise AnalysisFailed(f"the analysis failed: {str(error) or type(error).__name__}") from error


def main() -> None:
    """Answer the calls of standard input."""
    calls: SimpleQueue[bytes] = SimpleQueue()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a call prints is no answer
    Thread(target=_take_calls, args=[calls, sys.argv[1]], daemon=True).start()
    __import__(NEEDED)
    while True:
        call = calls.get()
        try:
            answer: tuple[bool, object] = True, _called(lambda call=call: pickle.loads(call)())  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001 - the other side raises it
            answer = False, error
        answers.write(dumps(answer))  # type: ignore[no-untyped-call]
        answers.flush()


def _take_calls(calls: "SimpleQueue[bytes]", folder: str) -> None:
    """Pass on the calls of standard input. Its end ends this process at once, even within a call."""
    while length := sys.stdin.buffer.read(LENGTH.size):
        calls.put(sys.stdin.buffer.read(*LENGTH.unpack(length)))
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    # The module of that name, whose errors calls raise; this one is `__main__`.
    from checkers.histories import processes as module  # noqa: PLW0406

    module.main()
