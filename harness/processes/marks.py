"""The mark in the environment of every process of a run, and how to kill marked processes.

A mark contains pid and start time of the run's own process, so that others can find out later whether the run is still
running. `4711.1234567.4026531836.9f86d081` is pid, start time, pid namespace and a random part. Children inherit the
environment, so grandchildren have the mark too.
"""

import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from harness.common.waiting import wait_for

VARIABLE = "FENCEPOST_RUN"
_KTHREADD = 2  # the parent of Linux's kernel threads, which have no environment either
_MARK = re.compile(r"(\d+)\.(\d+)\.(\d+)\.[0-9a-f]+")


def start_time(pid: int) -> int | None:
    """Return the start time of a process, or None if it does not exist. Use it only to compare for equality.

    A process that has ended but is not reaped counts as not existing. On Linux, the unit is ticks since the boot of the
    machine, so a change of the wall clock does not affect it.
    """
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            return int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        return int(process.create_time() * 1000)
    except (psutil.Error, OSError):
        return None


def new_mark() -> str:
    """Return a new mark for a run in this process."""
    return f"{os.getpid()}.{start_time(os.getpid())}.{_namespace()}.{secrets.token_hex(4)}"


def _namespace() -> int:
    """Return the pid namespace, because a pid is unique only within it; 0 if the system has no namespaces."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def is_abandoned(mark: str) -> bool:
    """Return whether the run with this mark has certainly ended."""
    parts = _MARK.fullmatch(mark)
    if parts is None or int(parts[3]) != _namespace():
        return False
    return start_time(int(parts[1])) != int(parts[2])


def marked_processes() -> Iterator[tuple[psutil.Process, str]]:
    """Yield every live process of this user that has a mark, and its mark, except this process."""
    for process, environment in _environments():
        if VARIABLE in environment:
            yield process, environment[VARIABLE]


def _environments() -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            environment = process.environ()
            if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                yield process, environment
        except (psutil.Error, OSError):  # it has just ended, or belongs to another user
            continue


def process_texts() -> str:
    """Return the concatenated command lines and environment values of all processes that this user may inspect."""
    texts: list[str] = []
    for process, environment in _environments():
        texts += environment.values()
        try:
            texts += process.cmdline()
        except psutil.Error:  # it has just ended
            continue
    return "\n".join(texts)


def _may_be_between_fork_and_exec(process: psutil.Process, environment: dict[str, str]) -> bool:
    """Return whether a process may be between fork and exec. In that moment its environment is not visible."""
    try:
        return not environment and process.ppid() != _KTHREADD and time.time() - process.create_time() < 2
    except psutil.NoSuchProcess:
        return False


def end_marked(marks: Iterable[str], timeout_s: float = 30.0) -> list[str]:
    """Kill every process that has one of the marks, until two searches in a row find none. Stopped processes end too.

    Returns descriptions of the killed processes: `process 4711 (java)`. Raises `WaitTimeout` if a process does not end.
    """
    wanted = set(marks)
    ended: dict[int, str] = {}
    empty_searches = 0

    def none_left() -> bool:
        nonlocal empty_searches
        processes = list(_environments())
        matching = [process for process, environment in processes if environment.get(VARIABLE) in wanted]
        for process in matching:
            try:
                ended.setdefault(process.pid, f"process {process.pid} ({process.name()})")
                process.kill()
            except psutil.NoSuchProcess:
                continue
        is_quiet = not matching and not any(_may_be_between_fork_and_exec(*process) for process in processes)
        empty_searches = empty_searches + 1 if is_quiet else 0
        return empty_searches >= 2

    if wanted:
        wait_for(none_left, "the end of the run's processes", timeout_s, every_s=0.02)
    return list(ended.values())
