"""The shared judge's process: one Spark, asked on a socket, one question after the other.

    fencepost judge SOCKET

It ends when its standard input does, and so with the process that started it.
"""

import json
import logging
import os
import signal
import socketserver
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.evidence import Evidence
from fencepost.judges.protocol import Request, Spark, answer_as_json, short_name
from fencepost.judging import judge, open_evidence
from fencepost.lifeline import await_the_end
from fencepost.spark import begin_early
from harness.environment.java import java
from harness.errors import EnvironmentFailure, FencepostError
from harness.verdict import Verdict

if TYPE_CHECKING:
    from checkers.spark.session import Pending

log = logging.getLogger(__name__)

Tell = Callable[[dict[str, Any]], None]


class OneSpark:
    """One Spark, for all who need the same; it is begun by the first who asks."""

    def __init__(self) -> None:
        self._state = threading.Lock()
        self._at_work = threading.Lock()
        self._spark: Spark | None = None
        self._pending: Pending | None = None

    def answer(self, request: Request, tell: Tell) -> None:
        """Tell what is to be told to one who asks. `tell` never raises, or a question would end in the middle of a
        job that others wait for.
        """
        with self._at_work if request.runs else nullcontext():
            try:
                pending = self._begun(request.spark)
                if pending is None:
                    why = "the shared judge has another Java, other Spark settings, or is another installation's"
                    tell({"refused": why})
                    return
                told = self._judge(pending, request, tell) if request.runs else []
            except (
                EnvironmentFailure
            ) as error:  # Spark is gone: the next one gets another, and this one its own
                self._forget()
                tell({"refused": f"the shared judge's Spark is gone: {error}"})
            except FencepostError as error:
                tell({"refused": str(error)})
            else:
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

    def _forget(self) -> None:
        with self._state:
            pending, self._pending = self._pending, None
        if pending is not None:
            pending.close()

    def _judge(self, pending: "Pending", request: Request, tell: Tell) -> list[Verdict | FencepostError]:
        """An answer for each run; raises `EnvironmentFailure` if Spark is gone."""
        opened = [_open(name, Path(folder)) for name, folder in request.runs]
        runs = [one for one in opened if not isinstance(one, FencepostError)]
        told = judge(pending.session(), runs, frozenset(request.allow), lambda name: tell({"phase": name}))
        if gone := next((one for one in told if isinstance(one, EnvironmentFailure)), None):
            raise gone
        answers = iter(told)
        return [one if isinstance(one, FencepostError) else next(answers) for one in opened]


def _open(name: str, folder: Path) -> Evidence | FencepostError:
    try:
        return open_evidence(name, folder)
    except FencepostError as error:
        return error


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A thread for each who asks."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path, spark: OneSpark) -> None:
        self.spark = spark
        with short_name(path) as name:
            super().__init__(name, Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A bug of ours: it is logged, and the next question is answered."""
        log.exception("a question could not be answered")


class Handler(socketserver.StreamRequestHandler):
    """One question."""

    def handle(self) -> None:
        """Read it, and write the answer line by line."""
        assert isinstance(self.server, Server)
        try:
            line = self.rfile.readline()
            request = Request.from_json(json.loads(line)) if line else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._tell({"refused": f"this is no question: {type(error).__name__}: {error}"})
            return
        if request is not None:  # one who comes and goes has asked nothing
            self.server.spark.answer(request, self._tell)

    def _tell(self, body: dict[str, Any]) -> None:
        try:
            self.wfile.write(json.dumps(body, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            log.info("whoever had asked is gone: %s", error)


def serve(path: Path) -> None:
    """Serve on a socket of this name until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us, and then we end with it
    path = path.absolute()
    spark = OneSpark()
    with Server(path, spark) as server:
        print("listening", flush=True)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody reads there any more
        threading.Thread(target=server.serve_forever, name="judge", daemon=True).start()
        await_the_end(os.getppid())
        spark.close()
        server.shutdown()
    with suppress(OSError):  # whoever started us removes both, unless he was killed
        path.unlink()
        path.parent.rmdir()
