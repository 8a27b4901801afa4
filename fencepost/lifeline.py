"""How a process that serves another one ends with it, whatever ends that one."""

import os
import select
import sys

LOOK_S = 1.0
"""How often it is looked whether the process that started this one is there."""


def await_the_end(parent: int) -> None:
    """Until standard input ends, or says so, or whoever started us is gone: a child that he has forked may hold the
    other end of the pipe.
    """
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin.buffer], [], [], LOOK_S)
        if readable:
            return
