"""Watch the client calls of a worker. If a call lasts too long, report it to the run and write it into the journal.

Every call of a transaction has a time-out, but a library may ignore it (librdkafka #5456, #5511). A worker in such a
call cannot report it, so a second thread does. This works because neither client holds Python's global
interpreter lock during a call.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness.processes.control_line import Report
from harness.record.events import ErrorNoted
from harness.record.journal import Journal
from harness.roles.control import Call, Control

CHECK_INTERVAL_S = 1.0
LONG_CHECKS = 20
"""A call is reported after the watch has seen it this many times. This takes twice the time-out of a call."""


class CallWatch:
    """Counts how often it has seen the same call.

    It counts checks instead of time, so that a pause of the process does not count as a long call.
    """

    def __init__(self, control: Control, journal: Journal) -> None:
        self._control = control
        self._journal = journal
        self._seen: Call | None = None
        self._checks = 0
        self._reported: Call | None = None
        self._ended = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch in a thread inside a `with` block."""
        thread = threading.Thread(target=self._watch, name="call watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(CHECK_INTERVAL_S):
            self.check()

    def check(self) -> None:
        """Check once. Report the current call if it has lasted too long, and report when such a call has returned."""
        now = self._control.calls.now
        self._checks = self._checks + 1 if now is self._seen else 1
        self._seen = now
        if self._reported is not None and now is not self._reported:
            self._reported = None
            self._control.report(Report(slow_call_since_ns=0))  # the call has returned
        if now is not None and self._reported is None and self._checks >= LONG_CHECKS:
            self._reported = now
            since_ns = self._journal.now_ns() - (time.monotonic_ns() - now.since_ns)
            self._journal.write(ErrorNoted(op=now.op, waits=now.name, since=since_ns))
            self._control.report(Report(slow_call=now.name, slow_call_since_ns=since_ns))
