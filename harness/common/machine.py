"""The memory and the processors that this process may use, within the limits of its container."""

import os
from pathlib import Path

import psutil

MB = 1024 * 1024
_CGROUP = Path("/sys/fs/cgroup")  # limits of the container, if this process runs in one


def free_memory_mb() -> int:
    """Return how much memory new processes can use without swapping."""
    free = psutil.virtual_memory().available
    try:
        limit, used = (int(_limit(name)) for name in ("memory.max", "memory.current"))
        cached = dict(line.split() for line in _limit("memory.stat").splitlines())["inactive_file"]
    except (OSError, ValueError, KeyError):  # no container, or "max"
        return int(free // MB)
    return int(min(free, max(0, limit - used + int(cached))) // MB)


def max_parallel(memory_mb: int, processors: int) -> int:
    """Return how many runs or processes fit on this machine at once, if each needs this much; at least 1."""
    return max(1, min(free_memory_mb() // memory_mb, _usable_processors() // processors))


def _usable_processors() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = map(int, _limit("cpu.max").split())
    except (OSError, ValueError):  # no container, or "max"
        return count
    return max(1, min(count, quota // period))


def _limit(name: str) -> str:
    return (_CGROUP / name).read_text(encoding="utf-8")
