"""A judge that several runs share: a process that ends with the one that started it.

Like all that a user's process loads, this imports no other room of the house.
"""

import os
import select
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fencepost.api import command

VARIABLE = "FENCEPOST_JUDGE"
"""Names the socket of the judge that runs and checks may share."""
START_TIMEOUT_S = 20.0
END_TIMEOUT_S = 20.0


@contextmanager
def shared_judge() -> Iterator[None]:
    """Let one Spark judge every `run` and `check` in this `with`: each after the first has its verdict sooner, and
    takes less from the machine.

    The judge listens on a socket in a folder that only its owner can open. It starts Spark when it is first needed,
    and ends with this `with`, or with this process, whatever ends it. A run that needs another Java,
    other Spark settings or more memory starts a Spark of its own, as without a shared judge.
    """
    if os.environ.get(VARIABLE):
        yield  # there is one already
        return
    with tempfile.TemporaryDirectory(prefix="fencepost-judge-") as folder:
        path = Path(folder) / "socket"
        try:
            process = subprocess.Popen(
                [*command(), "judge", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError:  # of a command that is not there; a run says so in its own words
            yield
            return
        with process:
            assert process.stdin is not None
            if _listens(process):
                os.environ[VARIABLE] = str(path)
            try:
                yield
            finally:
                os.environ.pop(VARIABLE, None)
                with suppress(BrokenPipeError):  # it has ended before
                    process.stdin.write(b"end\n")  # a child forked meanwhile may hold this pipe open
                    process.stdin.close()
                try:
                    process.wait(END_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    process.kill()


def _listens(process: "subprocess.Popen[bytes]") -> bool:
    """Whether the judge came up, which it says in a line; without one every run starts a Spark of its own."""
    assert process.stdout is not None
    with process.stdout as said:
        readable, _, _ = select.select([said], [], [], START_TIMEOUT_S)
        if readable and said.readline():
            return True
    warnings.warn("the shared judge did not start: each run starts a Spark of its own", stacklevel=4)
    return False
