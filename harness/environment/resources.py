"""Memory, disk and ports of this machine: check that there is enough, and reserve ports.

Blocks are below the range of ephemeral ports. So no outgoing connection of another program gets one of these ports
between its choice and its use.
"""

import fcntl
import os
import socket
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO

import psutil

from harness.common.errors import EnvironmentFailure
from harness.common.machine import MB, free_memory_mb

SIZE = 600
FIRST, END = 20_000, 32_000
HOST = "127.0.0.1"


def free_disk_mb(folder: Path) -> int:
    """Return the free disk space of a folder, which need not exist yet."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    return int(psutil.disk_usage(str(existing)).free // MB)


def require_disk(disk_mb: int, folder: Path) -> None:
    """Raise `EnvironmentFailure` if a folder has less free disk space."""
    free = free_disk_mb(folder)
    if free < disk_mb:
        raise EnvironmentFailure(
            f"{disk_mb} MB of disk are needed in {folder}, but {free} MB are free: "
            "make room, or choose another folder"
        )


def require_memory(memory_mb: int) -> None:
    """Raise `EnvironmentFailure` if less memory is free."""
    free = free_memory_mb()
    if free < memory_mb:
        raise EnvironmentFailure(
            f"{memory_mb} MB of memory are needed, but {free} MB are free: "
            "close other programs, or give the brokers a smaller heap (--set heap-mb=128)"
        )


def require(memory_mb: int, disk_mb: int, folder: Path) -> None:
    """Raise `EnvironmentFailure` if there is too little memory or disk."""
    require_memory(memory_mb)
    require_disk(disk_mb, folder)


class PortBlock:
    """A context manager that reserves a block of ports. `take` returns its free ports one by one.

    If `first_port` is given, the block starts there, and a port of it that is not free is an error. Otherwise such a
    port is skipped. Raises `EnvironmentFailure`.
    """

    def __init__(self, cache: Path, *, first_port: int | None = None) -> None:
        self._folder = cache / "ports"
        self._fixed = first_port is not None
        self._stack = ExitStack()
        self.first: int = first_port or 0
        self._next: int = self.first

    def __enter__(self) -> "PortBlock":
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._fixed:
                self._claim_fixed()
            else:
                self.first = self._next = self._claim_any()
        except OSError as error:
            raise EnvironmentFailure(
                f"ports cannot be reserved in {self._folder} ({error}): make it writable, "
                "or name another cache folder in the environment variable FENCEPOST_CACHE"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def take(self) -> int:
        """Return the next port of the block on which a server can listen on 127.0.0.1."""
        while self._next < self.first + SIZE:
            port = self._next
            self._next += 1
            if can_listen(port):
                return port
            if self._fixed:
                raise EnvironmentFailure(
                    f"port {port} is taken: end the program that uses it, or choose another first-port"
                )
        raise EnvironmentFailure(
            f"no port is free any more from {self.first} to {self.first + SIZE - 1}: "
            "end the programs that use them, or choose another first-port"
        )

    def _claim_any(self) -> int:
        blocks = range(FIRST, END, SIZE)
        begin = os.getpid() % len(blocks)  # runs with different caches do not see each other's locks
        for step in range(len(blocks)):
            first = blocks[(begin + step) % len(blocks)]
            if self._claim(first // SIZE):
                return first
        raise EnvironmentFailure(
            f"all {len(blocks)} blocks of ports from {FIRST} to {END - 1} are taken by other runs: "
            "wait until one ends"
        )

    def _claim_fixed(self) -> None:
        last = self.first + SIZE - 1
        for block in range(self.first // SIZE, last // SIZE + 1):  # the ports may be in two blocks
            if not self._claim(block):
                self._stack.close()
                raise EnvironmentFailure(
                    f"ports {self.first} to {last} are taken by another run: choose another first-port, or none"
                )

    def _claim(self, block: int) -> bool:
        file: IO[bytes] = (self._folder / str(block * SIZE)).open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._stack.enter_context(file)
        return True


def can_listen(port: int) -> bool:
    """Return whether a server can listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True
