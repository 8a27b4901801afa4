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
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, TypeVar
from weakref import WeakSet

from pyspark.cloudpickle import dumps

from harness.common.errors import AnalysisFailed, FencepostError, value_or_error
from harness.common.machine import max_parallel

T = TypeVar("T")
PREFIX = "fencepost-history-"
LENGTH = struct.Struct("Q")
"""The length of a pickled call in bytes. It precedes each call."""
INTERRUPTED = "the check was interrupted"
NEEDED = "checkers.histories.tables"
"""The module that a process imports before its first call. It imports what calls need."""
MEMORY_MB = 1024
"""About as much memory as a call needs (see `checkers.histories.table.TASK_BYTES`)."""


class TaskProcesses:
    """Processes that answer calls. One starts if a call finds none that is free. All end with the `with` block."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or max_parallel(MEMORY_MB, processors=1)
        self._threads = ThreadPoolExecutor(self.count, thread_name_prefix="history-task")
        self._workers: list[_Worker] = []  # also those that have ended
        self._free: list[_Worker] = []
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        self._killed = False
        _POOLS.add(self)

    def __enter__(self) -> "TaskProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._threads.shutdown()
        for worker in self._workers:
            worker.close()
        self._folder.cleanup()

    def new_folder(self) -> "tempfile.TemporaryDirectory[str]":
        """Return a folder for the results of calls. The processes remove it if this process is killed."""
        return tempfile.TemporaryDirectory(dir=self._folder.name, ignore_cleanup_errors=True)

    def call_all(self, calls: Sequence[Callable[[], T]], *, here: bool) -> list[T]:
        """Return the results of all calls, in their order.

        Args:
            here: make the calls in this process, because they take less time than the start of another

        Raises:
            UnreadableInput: a file is damaged.
            AnalysisFailed: a call failed, or its process ended.
        """
        if here:
            return [_raised_or_value(_answer(call)) for call in calls]
        futures = [self._threads.submit(self._ask, dumps(call)) for call in calls]  # type: ignore[no-untyped-call]
        try:
            return [_raised_or_value(future.result()) for future in futures]
        finally:  # after a failure the others still write to the folder of their results
            wait([future for future in futures if not future.cancel()])

    def kill(self) -> None:
        """Kill the processes. Calls that wait for an answer fail, and later ones too. A signal handler may call it."""
        self._killed = True
        for worker in tuple(self._workers):
            worker.kill()

    def _ask(self, call: bytes) -> Any:
        """Return the answer of a process that is free. A process that dies is not asked again."""
        if self._killed:
            return AnalysisFailed(INTERRUPTED)
        try:
            worker = self._free.pop()
        except IndexError:
            worker = _Worker(self._folder.name)
            self._workers.append(worker)
        answer = worker.answer(call, killed=lambda: self._killed)
        if not worker.has_ended():
            self._free.append(worker)
        return answer


_POOLS: WeakSet[TaskProcesses] = WeakSet()


def kill_processes() -> None:
    """Kill the processes of all checks. A signal handler may call it: it waits for nothing."""
    for pool in tuple(_POOLS):
        pool.kill()


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
        """Return the answer to a call: its result, or its error. If the process ends without one, that is the error."""
        stdin, stdout = _pipe(self._process.stdin), _pipe(self._process.stdout)
        try:
            if killed():
                self.kill()
            stdin.write(LENGTH.pack(len(call)))
            stdin.write(call)
            stdin.flush()
            return pickle.load(stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            why = self.close()
            return AnalysisFailed(INTERRUPTED if killed() else why)

    def kill(self) -> None:
        self._process.kill()

    def has_ended(self) -> bool:
        return self._process.returncode is not None

    def close(self) -> str:
        """End the process. Returns why it had ended, if it had."""
        if self._log.closed:
            return ""
        self.kill()
        status = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # the rest of a call is not sent
                _pipe(pipe).close()
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


def _answer(call: Callable[[], T]) -> T | FencepostError:
    """Return the result of a call, or its error."""
    return value_or_error(call, AnalysisFailed, lambda error: f"the analysis failed: {error}")


def _raised_or_value(answer: T | FencepostError) -> T:
    if isinstance(answer, FencepostError):
        raise answer
    return answer


def main() -> None:
    """Answer the calls of standard input."""
    calls: SimpleQueue[bytes] = SimpleQueue()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a call prints is no answer
    Thread(target=_take_calls, args=[calls, sys.argv[1]], daemon=True).start()
    __import__(NEEDED)
    while True:
        call = calls.get()
        answers.write(dumps(_answer(lambda call=call: pickle.loads(call)())))  # type: ignore[misc,no-untyped-call]
        answers.flush()


def _take_calls(calls: "SimpleQueue[bytes]", folder: str) -> None:
    """Pass on the calls of standard input. Its end ends this process at once, even within a call."""
    while length := sys.stdin.buffer.read(LENGTH.size):
        calls.put(sys.stdin.buffer.read(*LENGTH.unpack(length)))
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
