"""Memory and disk: enough of both, before anything starts."""

from pathlib import Path

import psutil

from harness.common.errors import EnvironmentFailure

MB = 1024 * 1024
_CGROUP = Path("/sys/fs/cgroup")  # of the container, where there is one


def free_memory_mb() -> int:
    """What new processes may take without swapping, within the limit of the container."""
    free = psutil.virtual_memory().available
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # no container, or "max"
        return int(free // MB)
    return int(min(free, max(0, limit - used)) // MB)


def max_parallel_runs(memory_mb: int, cores: int) -> int:
    """How many runs, each of so much memory and so many cores, this machine has room for; 1 at least."""
    return max(1, min(free_memory_mb() // memory_mb, (psutil.cpu_count() or 1) // cores))


def free_disk_mb(folder: Path) -> int:
    """What may be written into a folder, which need not exist yet."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    return int(psutil.disk_usage(str(there)).free // MB)


def require_disk(disk_mb: int, folder: Path) -> None:
    """Raise `EnvironmentFailure` unless that much may be written into the folder."""
    free = free_disk_mb(folder)
    if free < disk_mb:
        raise EnvironmentFailure(
            f"{disk_mb} MB of disk are needed in {folder} and {free} MB are free: "
            "make room, or choose another folder"
        )


def require_memory(memory_mb: int) -> None:
    """Raise `EnvironmentFailure` unless that much memory is free."""
    free = free_memory_mb()
    if free < memory_mb:
        raise EnvironmentFailure(
            f"{memory_mb} MB of memory are needed and {free} MB are free: "
            "close other programs, or give the brokers a smaller heap (--set heap-mb=128)"
        )


def require(memory_mb: int, disk_mb: int, folder: Path) -> None:
    """Raise `EnvironmentFailure` unless there is enough of both."""
    require_memory(memory_mb)
    require_disk(disk_mb, folder)
