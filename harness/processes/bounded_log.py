"""A log file with bounded size: it keeps the first part and the last part of the output."""

import os
import threading
from pathlib import Path

LIMIT_BYTES = 512 * 1024
"""The limit of each of the three files: `x.log`, `x.log.before-last` and `x.log.last`."""


class BoundedLog:
    """Copies the output of a process from a pipe to files. The process writes to `write_end`."""

    def __init__(self, path: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._copy, name=f"log-{path.name}", daemon=True)
        self._thread.start()

    def close_write_end(self) -> None:
        """Close the copy of `write_end` in this process. Then the pipe ends when the other process ends."""
        os.close(self.write_end)

    def wait(self, timeout_s: float) -> None:
        """Wait until all output is in the files."""
        self._thread.join(timeout_s)

    def _copy(self) -> None:
        last = self._path.with_name(self._path.name + ".last")
        file, written = self._path, self._path.stat().st_size if self._path.exists() else 0
        with os.fdopen(self._read_end, "rb", buffering=0) as pipe:
            while data := pipe.read(64 * 1024):
                if written + len(data) > self._limit_bytes and written:
                    if file == last:
                        last.replace(self._path.with_name(self._path.name + ".before-last"))
                    file, written = last, 0
                with file.open("ab") as log:
                    log.write(data)
                written += len(data)
