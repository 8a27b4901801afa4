"""The shared judge's process: one Spark, asked on a socket, one question after the other.

    python -m fencepost.judges.server SOCKET

It ends when its standard input does, and so with the process that started it.
"""

import json
import logging
import signal
import socketserver
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.judge import judge, open_evidence
from fencepost.judges.protocol import Request, Spark, answer_as_json, short_name
from fencepost.spark import begin_early
from harness.environment.java import java
from harness.errors import EnvironmentFailure, FencepostError
from harness.verdict import Verdict

if TYPE_CHECKING:
    from checkers.spark.session import Pending

log = logging.getLogger(__name__)

Tell = Callable[[dict[str, Any]], None]


class Judge:
    """One Spark, for all who need the same; it is begun by the first who asks."""

    def __init__(self) -> None:
        self._state = threading.Lock()
        self._at_work = threading.Lock()
        self._spark: Spark | None = None
        self._pending: Pending | None = None

    def answer(self, request: Request, tell: Tell) -> None:
        """Tell what is to be told to one who asks."""
        try:
            pending = self._begun(request.spark)
        except FencepostError as error:
            tell({"refused": str(error)})
            return
        if pending is None:
            tell({"refused": "the shared judge has another Java, other Spark settings, or is another installation's"})
        else:
            with self._at_work if request.runs else nullcontext():
                told = self._judge(pending, request, tell) if request.runs else ()
            tell({"answers": [answer_as_json(one) for one in told]})

    def close(self) -> None:
        """End Spark, in the middle of whatever it does."""
        with self._state:
            pending, self._pending = self._pending, None
        if pending is not None:
            pending.kill()
            pending.close()

    def _begun(self, spark: Spark) -> "Pending | None":
        """The Spark that is there or comes up; None if it is another."""
        with self._state:
            if self._pending is None and spark.house == Spark.house:
                self._pending = begin_early(java(spark.java_home), spark.master, spark.conf, inputs=0)
                self._spark = spark
            return self._pending if self._spark == spark else None

    def _judge(self, pending: "Pending", request: Request, tell: Tell) -> list[Verdict | FencepostError]:
        try:
            opened = [_open(name, Path(folder)) for name, folder in request.runs]
            runs = [one for one in opened if not isinstance(one, FencepostError)]
            told = judge(
                pending.session(), runs, frozenset(request.allow), lambda name: tell({"phase": name})
            )
        except EnvironmentFailure as error:  # Spark is gone: the next one gets another
            with self._state:
                if self._pending is pending:
                    self._pending = None
            pending.close()
            return [error] * len(request.runs)
        answers = iter(told)
        return [one if isinstance(one, FencepostError) else next(answers) for one in opened]


def _open(name: str, folder: Path) -> Any:
    try:
        return open_evidence(name, folder)
    except FencepostError as error:
        return error


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A thread for each who asks."""

    daemon_threads = True

    def __init__(self, path: Path, judge: Judge) -> None:
        self.judge = judge
        with short_name(path) as name:
            super().__init__(name, Handler)


class Handler(socketserver.StreamRequestHandler):
    """One question."""

    def handle(self) -> None:
        """Read it, and write the answer line by line."""
        assert isinstance(self.server, Server)
        try:
            request = Request.from_json(json.loads(self.rfile.readline()))
            self.server.judge.answer(request, self._tell)
        except BrokenPipeError:
            log.info("whoever had asked is gone")

    def _tell(self, body: dict[str, Any]) -> None:
        self.wfile.write(json.dumps(body, ensure_ascii=False).encode() + b"\n")


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us, and then we end with it
    path = Path(sys.argv[1]).absolute()
    judge_of_all = Judge()
    with Server(path, judge_of_all) as server:
        threading.Thread(target=server.serve_forever, name="judge", daemon=True).start()
        sys.stdin.buffer.read()
        judge_of_all.close()
        server.shutdown()
    with suppress(OSError):  # whoever started us removes both, unless he was killed
        path.unlink()
        path.parent.rmdir()


if __name__ == "__main__":
    main()
