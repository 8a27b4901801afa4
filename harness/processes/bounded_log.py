"""A log that cannot fill the disk: its first part stays, and of the rest the last part."""

import os
import threading
from pathlib import Path

LIMIT_BYTES = 512 * 1024
"""Of each of at most three files: `x.log`, `x.log.before-last`, `x.log.last`."""


class BoundedLog:
    """Takes what a process prints through a pipe, whose end for the process is `write_end`."""

    def __init__(self, path: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._copy, name=f"log-{path.name}", daemon=True)
        self._thread.start()

    def started(self) -> None:
        """The process has its own end of the pipe: without ours the pipe ends with the process."""
        os.close(self.write_end)

    def wait(self, timeout_s: float) -> None:
        """Wait until all that was printed is in the files."""
        self._thread.join(timeout_s)

    def _copy(self) -> None:
        last = self._path.with_name(self._path.name + ".last")
        place, written = self._path, self._path.stat().st_size if self._path.exists() else 0
        with os.fdopen(self._read_end, "rb", buffering=0) as pipe:
            while data := pipe.read(64 * 1024):
                if written + len(data) > self._limit_bytes and written:
                    if place == last:
                        last.replace(self._path.with_name(self._path.name + ".before-last"))
                    place, written = last, 0
                with place.open("ab") as file:
                    file.write(data)
                written += len(data)
