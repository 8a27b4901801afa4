"""A look, once a second, at the call that a worker is in: one that lasts is told to the run, and noted in the journal.

Every call of a transaction has a time-out, which a library may ignore (librdkafka #5456, #5511). A worker that waits so
can say nothing itself: a thread beside it does. It cannot where the library keeps Python's lock meanwhile; neither
client does.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness.processes.control_line import Report
from harness.record.events import ErrorNoted
from harness.record.journal import Journal
from harness.roles.calls import Call
from harness.roles.control import Control

LONG_LOOKS = 20
"""Looks at one call after which it is told: with one each second, twice the time-out of a call."""
LOOK_S = 1.0


class CallWatch:
    """Counts how often it has seen a call. While the process is paused it sees nothing, and no call is to blame."""

    def __init__(self, control: Control, journal: Journal) -> None:
        self._control = control
        self._journal = journal
        self._seen: Call | None = None
        self._looks = 0
        self._told: Call | None = None
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look meanwhile, in a thread."""
        thread = threading.Thread(target=self._watch, name="call watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Look once."""
        now = self._control.calls.now
        self._looks = self._looks + 1 if now is self._seen else 1
        self._seen = now
        if self._told is not None and now is not self._told:
            self._told = None
            self._control.report(Report(since_ns=0))  # it has come back
        if now is not None and self._told is None and self._looks >= LONG_LOOKS:
            self._told = now
            since_ns = self._journal.now_ns() - (time.monotonic_ns() - now.since_ns)
            self._journal.write(ErrorNoted(op=now.op, waits=now.name, since=since_ns))
            self._control.report(Report(waits=now.name, since_ns=since_ns))
