"""Call functions in processes of this machine, for histories that are in local files.

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
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import lru_cache, partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import IO, Any, TypeVar
from weakref import WeakSet

import psutil
from pyspark.cloudpickle import dumps

from harness.common.errors import AnalysisFailed, FencepostError, UnreadableInput

T = TypeVar("T")
PREFIX = "fencepost-history-"
LENGTH = struct.Struct("Q")
"""The length of a pickled call in bytes. It precedes each call."""
INTERRUPTED = "the check was interrupted"
NEEDED = "checkers.histories.tables"
"""The module that a process imports before its first call. It imports what calls need."""
MEMORY_BYTES = 1 << 30
"""About as much memory as a call needs (see `checkers.histories.table.TASK_BYTES`)."""


class DamagedFile(ValueError):
    """A part of a file cannot be read."""

    def __init__(self, path: str, error: str) -> None:
        super().__init__(path, error)
        self.path, self.error = path, error

    def __str__(self) -> str:
        return f"error while reading file {self.path}: {self.error}"


class TaskProcesses:
    """Processes that answer calls. Each starts when a call has none. It is a context manager, whose end ends them."""

    def __init__(self) -> None:
        self.count = possible_count()
        self._calls: SimpleQueue[tuple[Future[Any], bytes] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._workers: list[_Worker] = []  # also those that have ended
        self._starting = Lock()
        self._folder: str | None = None
        self._killed = False
        _POOLS.add(self)

    def __enter__(self) -> "TaskProcesses":
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        for _ in range(len(self._threads)):
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def new_folder(self) -> "tempfile.TemporaryDirectory[str]":
        """Return a folder for the results of calls. The processes remove it if this process is killed."""
        return tempfile.TemporaryDirectory(prefix=PREFIX, dir=self._own_folder(), ignore_cleanup_errors=True)

    def call_all(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results of all calls, in their order.

        Raises:
            UnreadableInput: a file is damaged.
            AnalysisFailed: a call failed, or its process ended.
        """
        folder = self._own_folder()
        futures = [Future[T]() for _ in calls]
        with self._starting:
            for _ in range(min(self.count, len(calls)) - len(self._threads)):
                self._threads.append(
                    Thread(target=self._serve, args=[folder], daemon=True, name="history-task")
                )
                self._threads[-1].start()
        for future, call in zip(futures, calls, strict=True):
            self._calls.put((future, dumps(call)))  # type: ignore[no-untyped-call]
        try:
            return [future.result() for future in futures]
        except BaseException:
            running = [future for future in futures if not future.cancel()]
            wait(running)  # they still write to the folder of their results
            raise

    def kill(self) -> None:
        """Kill the processes. Calls that wait for an answer fail, and later ones too. A signal handler may call it."""
        self._killed = True
        for worker in tuple(self._workers):
            worker.kill()

    def _own_folder(self) -> str:
        with self._starting:
            if self._folder is None:
                self._folder = tempfile.mkdtemp(prefix=PREFIX)
            return self._folder

    def _serve(self, folder: str) -> None:
        """Pass on calls to a process, and start another one if it dies."""
        worker = None
        while (item := self._calls.get()) is not None:
            future, call = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if self._killed:
                    raise AnalysisFailed(INTERRUPTED)
                if worker is None:
                    worker = _Worker(folder)
                    self._workers.append(worker)
                future.set_result(worker.answer(call, killed=lambda: self._killed))
            except Exception as error:  # noqa: BLE001 - whoever waits for the answer gets it
                future.set_exception(error)
            if worker is not None and worker.has_ended():
                worker = None
        if worker is not None:
            worker.close()


_POOLS: WeakSet[TaskProcesses] = WeakSet()


def kill_processes() -> None:
    """Kill the processes of all checks. A signal handler may call it: it waits for nothing."""
    for pool in tuple(_POOLS):
        pool.kill()


def possible_count() -> int:
    """Return for how many processes this machine has processors and memory."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(processors, psutil.virtual_memory().available // MEMORY_BYTES))


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

    def answer(self, call: bytes, killed: Callable[[], bool]) -> Any:
        """Return the result of a call. Raises `AnalysisFailed`, or `UnreadableInput` for a damaged file."""
        stdin, stdout = _pipe(self._process.stdin), _pipe(self._process.stdout)
        try:
            if killed():
                self.kill()
            stdin.write(LENGTH.pack(len(call)))
            stdin.write(call)
            stdin.flush()
            done, value = pickle.load(stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            why = self.close()
            raise AnalysisFailed(INTERRUPTED if killed() else why) from None
        if not done:
            raise value
        return value

    def kill(self) -> None:
        self._process.kill()

    def has_ended(self) -> bool:
        return self._process.returncode is not None

    def close(self) -> str:
        """End the process. Returns why it had ended, if it had."""
        self.kill()
        status = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                _pipe(pipe).close()
            except OSError:  # the rest of a call
                continue
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        self._log.close()
        memory = ", perhaps because the machine has too little memory" if status == -9 else ""
        why = lines[-1] if lines else f"status {status}"
        return f"a process that checked a part of a history has ended{memory}: {why}"


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def share(value: T, path: Path) -> Callable[[], T]:
    """Write a value to a file. Returns a function for calls, which returns it.

    Each process caches the value that it read last.
    """
    path.write_bytes(dumps(value))  # type: ignore[no-untyped-call]
    return partial(_shared_value, str(path))


@lru_cache(maxsize=1)
def _shared_value(path: str) -> Any:
    return pickle.loads(Path(path).read_bytes())


def call_here(call: Callable[[], T]) -> T:
    """Return the result of a call in this process. Raises what `TaskProcesses.call_all` raises."""
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
            answer: tuple[bool, object] = True, call_here(lambda call=call: pickle.loads(call)())  # type: ignore[misc]
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
