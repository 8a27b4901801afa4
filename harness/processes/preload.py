"""The clock and the disk of one process, as the preloaded library `harness/environment/preload.c` shows them to it.

The library is in force when the process starts. It reads a control file, which this module writes.
"""

import errno
import mmap
import os
import struct
import time
from pathlib import Path

_CONTROL = struct.Struct("=QqqdqqqQqQQ")
"""`struct control` of the library: version; clock of the machine, wall clock and rate; delay and error of syncs;
error of writes; count and length of delayed syncs; counts of failed syncs and failed writes."""
_VERSION, _CLOCK = 0, 8
_SYNC_DELAY, _SYNC_ERROR, _WRITE_ERROR = 32, 40, 48
_DELAYED_SYNCS, _DELAYED_NS, _FAILED_SYNCS, _FAILED_WRITES = 56, 64, 72, 80
"""Positions in the control file."""
_SYNCED = struct.Struct("=QQ")  # the inode of a file, and its size when it was synced


class Preload:
    """Changes the clock and the disk of a process that was started with `env`, and of its children."""

    def __init__(self, library: Path, file: Path, data_dir: Path | None = None) -> None:
        """Write a control file that changes nothing.

        Args:
            library: The preloaded library.
            file: The control file. A process that starts again keeps it.
            data_dir: The folder in which writes and syncs can be changed. None: there is none.
        """
        file.write_bytes(_CONTROL.pack(0, 0, 0, 1.0, *[0] * 7))
        with file.open("r+b") as opened:
            self._control = mmap.mmap(opened.fileno(), _CONTROL.size)
        already = os.environ.get("LD_PRELOAD")
        self.env: dict[str, str] = {
            "LD_PRELOAD": f"{library}:{already}" if already else str(library),
            "FENCEPOST_PRELOAD": str(file),
        }
        self._synced = file.with_name(f"{file.name}-synced")
        if data_dir is not None:
            self.env["FENCEPOST_PRELOAD_DATA"] = str(data_dir.resolve())
        self._synced.touch()
        self.env["FENCEPOST_PRELOAD_SYNCED"] = str(self._synced)

    def set_clock(self, ahead_s: float = 0.0, rate: float = 1.0) -> None:
        """Set the wall clock of the process. Without arguments, it is the clock of the machine again.

        Args:
            ahead_s: How far it is ahead of the clock of the machine now. Negative: behind.
            rate: How many seconds it moves on in each second.
        """
        machine_ns = time.time_ns()
        clock = struct.pack("=qqd", machine_ns, machine_ns + int(ahead_s * 1e9), rate)
        odd = self._read("=Q", _VERSION) | 1  # the library reads an odd version again
        self._write("=Q", _VERSION, odd)
        self._control[_CLOCK : _CLOCK + len(clock)] = clock
        self._write("=Q", _VERSION, odd + 1)

    def delay_syncs(self, delay_s: float) -> None:
        """Let each fsync in the data folder take longer. 0: as long as on the machine."""
        self._write("=q", _SYNC_DELAY, int(delay_s * 1e9))

    def fail_syncs(self, failing: bool) -> None:
        """Let each fsync in the data folder fail with EIO, or no longer."""
        self._write("=q", _SYNC_ERROR, errno.EIO if failing else 0)

    def fail_writes(self, failing: bool) -> None:
        """Let each write in the data folder fail with ENOSPC, as on a full disk, or no longer."""
        self._write("=q", _WRITE_ERROR, errno.ENOSPC if failing else 0)

    @property
    def delayed_syncs(self) -> tuple[int, float]:
        """How many syncs were delayed, and how many seconds they waited, all together."""
        count = self._read("=Q", _DELAYED_SYNCS)  # before the seconds, which the library adds first
        return count, self._read("=q", _DELAYED_NS) / 1e9

    @property
    def failed_syncs(self) -> int:
        """How many syncs failed."""
        return self._read("=Q", _FAILED_SYNCS)

    @property
    def failed_writes(self) -> int:
        """How many writes failed."""
        return self._read("=Q", _FAILED_WRITES)

    def synced_bytes(self) -> dict[int, int]:
        """Return the size of each file of the data folder when it was synced the last time, by inode."""
        return dict(_SYNCED.iter_unpack(self._synced.read_bytes()))

    def _read(self, kind: str, position: int) -> int:
        return int(struct.unpack_from(kind, self._control, position)[0])

    def _write(self, kind: str, position: int, value: int) -> None:
        struct.pack_into(kind, self._control, position, value)
