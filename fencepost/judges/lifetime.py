"""A judge that several runs share: a process that ends with the one that started it.

Like all that a user's process loads, this imports no other room of the house.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "FENCEPOST_JUDGE"
"""Names the socket of the judge that runs and checks may share."""
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
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "fencepost.judges.server", str(path)], stdin=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            os.environ[VARIABLE] = str(path)
            try:
                yield
            finally:
                del os.environ[VARIABLE]
                process.stdin.close()  # which tells it to end
                try:
                    process.wait(END_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
