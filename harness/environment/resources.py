"""Check that there is enough memory and disk before anything starts."""

from pathlib import Path

import psutil

from harness.common.errors import EnvironmentFailure

MB = 1024 * 1024
_CGROUP = Path("/sys/fs/cgroup")  # limits of the container, if this process runs in one


def free_memory_mb() -> int:
    """Return how much memory new processes can use without swapping, within the limit of the container."""
    free = psutil.virtual_memory().available
    try:
        limit = int((_CGROUP / "memory.max").read_text(encoding="utf-8"))
        used = int((_CGROUP / "memory.current").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no container, or "max"
        return int(free // MB)
    return int(min(free, max(0, limit - used)) // MB)


def max_parallel_runs(memory_mb: int, cores: int) -> int:
    """Return how many runs fit on this machine at once, if each needs `memory_mb` and `cores`; at least 1."""
    return max(1, min(free_memory_mb() // memory_mb, (psutil.cpu_count() or 1) // cores))


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
