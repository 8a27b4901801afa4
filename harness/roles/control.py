"""The worker's end of its control line to the run, and the watch over its client calls.

Both ends send JSON lines over a socket pair. A fault *arms* a step. When the worker reaches that step while it
processes records, it reports the step and waits there. The fault then kills it, or stops it and later lets it go on. So
a fault cannot miss its step.

The worker also remembers which client call it is in, so that a call that never returns is reported by name.

Every call of a transaction has a time-out, but a library may ignore it (librdkafka #5456, #5511). A worker in such a
call cannot report it, so a second thread does. This works because neither client holds Python's global interpreter lock
during a call.
"""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from harness.model.vocabulary import WorkerStep
from harness.processes.messages import CaseOrder, Claims, Command, Report
from harness.record.events import ErrorNoted
from harness.record.journal import Journal

T = TypeVar("T")
CHECK_INTERVAL_S = 1.0
LONG_CHECKS = 20
"""A call is reported after the watch has seen it this many times. This takes twice the time-out of a call."""


@dataclass(frozen=True, eq=False)
class Call:
    """One call of the client library. Calls are compared by identity."""

    name: str  # of librdkafka's function: send_offsets_to_transaction
    op: int
    since_ns: int  # start of the call, on the monotonic clock


class Calls:
    """The current client call of a worker. Another thread may read `now` at any time."""

    def __init__(self) -> None:
        self.now: Call | None = None

    def during(self, name: str, op: int, call: Callable[[], T]) -> T:
        """Make a call, with `now` set until it returns."""
        self.now = Call(name, op, time.monotonic_ns())
        try:
            return call()
        finally:
            self.now = None


class Control:
    """The worker's end of the line. Without a socket, as in a benchmark, reports are dropped and no command arrives."""

    def __init__(self, channel: socket.socket | None) -> None:
        self._channel = channel
        self._sending = threading.Lock()  # the thread of `CallWatch` reports, too
        self._poll = select.poll()
        self._buffer = b""
        self._armed: str | None = None
        # Pause only in a transaction with this intended end: commit or abort.
        self._armed_intended_end: str | None = None
        self._go = False
        self.calls = Calls()
        self.replaced = False  # the run has started another worker in place of this one
        self.stopping = False
        self._case: CaseOrder | None = None
        if channel is not None:
            self._poll.register(channel, select.POLLIN)

    def report(self, report: Report) -> None:
        """Send a report. If the run has ended, set `stopping` instead of raising an error."""
        if self._channel is None:
            return
        try:
            with self._sending:
                self._channel.sendall(report.line())
        except (BrokenPipeError, ConnectionResetError):
            self.stopping = True

    def listen(self, timeout_s: float = 0.0) -> None:
        """Handle commands that have arrived. Wait up to `timeout_s` for the first one."""
        timeout_ms = round(1000 * timeout_s)
        while self._channel is not None and self._poll.poll(timeout_ms):
            timeout_ms = 0
            if not self._take():
                return

    def is_armed(self, step: WorkerStep) -> bool:
        """Return whether a fault is armed on this step."""
        self.listen()
        return self._armed == step.value

    def pause_at(
        self, step: WorkerStep, intended_end: str | None = None, claims: Claims | None = None
    ) -> None:
        """If a fault is armed on this step, report the step and wait until the run says go.

        Args:
            step: the step that the worker has reached.
            intended_end: how the worker means to end the current transaction: commit or abort. A fault may be armed
                for one of them only.
            claims: the offsets of the batch that the worker is processing.
        """
        self.listen()
        if self._armed != step.value or (
            self._armed_intended_end is not None and intended_end != self._armed_intended_end
        ):
            return
        self._armed = None
        self.wait_at(step.value, claims)

    def wait_at(self, step: str, claims: Claims | None = None) -> None:
        """Report a step, and wait there until the run says go."""
        self.report(Report(step=step, claims=claims))
        self._go = False
        while not self._go and self._take():
            pass

    def next_case(self) -> CaseOrder | None:
        """Wait for the next case. None: the run stops or replaces the worker."""
        while self._case is None and not (self.stopping or self.replaced) and self._take():
            pass
        case, self._case = self._case, None
        return case

    def await_go(self) -> None:
        """Wait until the run says go or stop. Return at once without a socket."""
        self._go = False
        while self._channel is not None and not self._go and not self.stopping and self._take():
            pass

    def _take(self) -> bool:
        """Read commands and carry them out. Return False if the run has ended."""
        assert self._channel is not None
        received = self._channel.recv(65536)
        if not received:
            self.stopping = True
            self._channel = None
            return False
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        for line in lines:
            command = Command.parse(line)
            if command.arm or command.disarm:
                self._armed, self._armed_intended_end = command.arm, command.intended_end
            self._go = self._go or command.go
            self._case = command.case or self._case
            self.replaced = self.replaced or command.replaced
            self.stopping = self.stopping or command.stop
        return True


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
