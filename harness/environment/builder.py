"""Run the processes of a build (a compiler, the broker that makes the class archive), and end them with the build."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from harness.common.errors import EnvironmentFailure
from harness.processes.child import Child
from harness.processes.spawn import Supervisor


class Builder:
    """A context manager that starts processes, and ends them when the `with` block ends."""

    def __init__(self) -> None:
        self._supervisor: Supervisor | None = None
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> "Builder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            self._stack.close()

    def spawn(
        self,
        args: Sequence[str | Path],
        *,
        name: str,
        log_file: Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
    ) -> Child:
        """Start a process. Raises `StartFailed`, and `EnvironmentFailure` after the `with` block has ended."""
        with self._lock:
            if self._closed:
                raise EnvironmentFailure(f"{name} was not started: the run is ending")
            if self._supervisor is None:
                self._supervisor = self._stack.enter_context(Supervisor())
            return self._supervisor.spawn(args, name=name, log_file=log_file, cwd=cwd, env=env)
