"""The clock and the disk of one process, as the preloaded library `harness/environment/preload.c` shows them to it.

The library is in force when the process starts. It reads a control file, which this module writes.
"""

import errno
import mmap
import os
import struct
import time
from pathlib import Path

_CONTROL = struct.Struct("=QqqdqqqQ")
"""`struct control` of the library: version; clock of the machine, wall clock and rate; delay and error of syncs;
error of writes; count of changed calls."""
_VERSION, _CLOCK, _DISK, _COUNT = 0, 8, 32, 56
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
        file.write_bytes(_CONTROL.pack(0, 0, 0, 1.0, 0, 0, 0, 0))
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
        (version,) = struct.unpack_from("=Q", self._control, _VERSION)
        machine_ns = time.time_ns()
        struct.pack_into("=Q", self._control, _VERSION, version + 1)  # odd: the library reads it again
        struct.pack_into("=qqd", self._control, _CLOCK, machine_ns, machine_ns + int(ahead_s * 1e9), rate)
        struct.pack_into("=Q", self._control, _VERSION, version + 2)

    def delay_syncs(self, delay_s: float) -> None:
        """Let each fsync in the data folder take longer."""
        self._set_disk(delay_ns=int(delay_s * 1e9))

    def fail_syncs(self) -> None:
        """Let each fsync in the data folder fail with EIO."""
        self._set_disk(sync_error=errno.EIO)

    def fill_disk(self) -> None:
        """Let each write in the data folder fail with ENOSPC."""
        self._set_disk(write_error=errno.ENOSPC)

    def heal_disk(self) -> None:
        """Let syncs and writes do again what they do on the machine."""
        self._set_disk()

    @property
    def changed_calls(self) -> int:
        """How many syncs were delayed or failed, and how many writes failed."""
        return int(struct.unpack_from("=Q", self._control, _COUNT)[0])

    def synced_bytes(self) -> dict[int, int]:
        """Return the size of each file of the data folder when it was synced the last time, by inode."""
        return dict(_SYNCED.iter_unpack(self._synced.read_bytes()))

    def _set_disk(self, delay_ns: int = 0, sync_error: int = 0, write_error: int = 0) -> None:
        struct.pack_into("=qqq", self._control, _DISK, delay_ns, sync_error, write_error)
