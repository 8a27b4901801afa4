"""The mark that every process of a run carries in its environment, and how marked processes end.

A mark names the run's own process by pid and start time, so that anyone can tell later whether the
run still lives: `4711.1234567.4026531836.9f86d081` is pid, start time, pid namespace and a random
part. Children inherit the environment, so a mark also finds the children of children.
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
    """When a process started, in a unit that only equality is asked of; None if there is none.

    A process that has ended and was not reaped yet counts as none. On Linux it is in ticks since
    the machine started, which no change of the wall clock moves.
    """
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            return int(stat.read_text().rpartition(")")[2].split()[19])
        return int(process.create_time() * 1000)
    except (psutil.Error, OSError):
        return None


def new_mark() -> str:
    """A mark for the run that is this process."""
    return f"{os.getpid()}.{start_time(os.getpid())}.{_namespace()}.{secrets.token_hex(4)}"


def _namespace() -> int:
    """The pid namespace: in another one, a pid means another process. 0 where there are none."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def is_abandoned(mark: str) -> bool:
    """Whether the run of this mark is certainly gone."""
    parts = _MARK.fullmatch(mark)
    if parts is None or int(parts[3]) != _namespace():
        return False
    return start_time(int(parts[1])) != int(parts[2])


def marked_processes() -> Iterator[tuple[psutil.Process, str]]:
    """Every live process of this user that carries a mark, with its mark; never this process."""
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
        except (psutil.Error, OSError):  # gone meanwhile, or another user's
            continue


def process_texts() -> str:
    """The command lines and environments of every process that may be looked into, one after the other."""
    words: list[str] = []
    for process, environment in _environments():
        words += environment.values()
        try:
            words += process.cmdline()
        except psutil.Error:  # gone meanwhile
            continue
    return "\n".join(words)


def _is_becoming(process: psutil.Process, environment: dict[str, str]) -> bool:
    """Whether it may be on its way from fork to exec, where for an instant no environment is to be seen."""
    try:
        return not environment and process.ppid() != _KTHREADD and time.time() - process.create_time() < 2
    except psutil.NoSuchProcess:
        return False


def end_marked(marks: Iterable[str], timeout_s: float = 30.0) -> list[str]:
    """SIGKILL every process that carries one of the marks, until none is left.

    Stopped processes end too. Returns what was ended: `process 4711 (java)`. Two looks in a row
    must find none. Raises `WaitTimeout` if some will not end.
    """
    wanted = set(marks)
    ended: dict[int, str] = {}
    quiet = 0

    def none_left() -> bool:
        nonlocal quiet
        looked = list(_environments())
        found = [process for process, environment in looked if environment.get(VARIABLE) in wanted]
        for process in found:
            try:
                ended.setdefault(process.pid, f"process {process.pid} ({process.name()})")
                process.kill()
            except psutil.NoSuchProcess:
                continue
        quiet = 0 if found or any(_is_becoming(*one) for one in looked) else quiet + 1
        return quiet >= 2

    if wanted:
        wait_for(none_left, "the end of the run's processes", timeout_s, every_s=0.02)
    return list(ended.values())
