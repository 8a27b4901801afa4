"""The line between a worker and the run: what the worker tells, and where it may be struck.

Both ends speak JSON lines over one socket pair. A fault *arms* a step; when the worker comes to
it with records in hand, it tells the step and waits there until it is struck (killed, or stopped
and told to go on). So no strike is missed, and none hits beside its step.
"""

import select
import socket
import threading

from harness.model.vocabulary import WorkerStep
from harness.processes.control_line import Claims, Command, Report
from harness.roles.calls import Calls


class Control:
    """The worker's end. Without a socket (a benchmark) nothing is told and nothing strikes."""

    def __init__(self, channel: socket.socket | None) -> None:
        self._channel = channel
        self._telling = threading.Lock()  # a thread beside the worker tells as well
        self._poll = select.poll()
        self._buffer = b""
        self._armed: str | None = None
        self._asked: str | None = None  # wait only in a transaction that is to end so
        self._go = False
        self.calls = Calls()
        self.replaced = False  # the run has put another worker in this one's place
        self.stopping = False
        if channel is not None:
            self._poll.register(channel, select.POLLIN)

    def report(self, report: Report) -> None:
        """Send a report; a run that has gone away is no reason to fail."""
        if self._channel is None:
            return
        try:
            with self._telling:
                self._channel.sendall(report.line())
        except (BrokenPipeError, ConnectionResetError):
            self.stopping = True

    def listen(self, timeout_s: float = 0.0) -> None:
        """Take in what has come; waits for it so long, and not at all by default."""
        timeout_ms = round(1000 * timeout_s)
        while self._channel is not None and self._poll.poll(timeout_ms):
            timeout_ms = 0
            if not self._take():
                return

    def is_armed(self, step: WorkerStep) -> bool:
        """Whether a fault waits for that step."""
        self.listen()
        return self._armed == step.value

    def pause_at(self, step: WorkerStep, asked: str | None = None, claims: Claims | None = None) -> None:
        """Be at a step: if it is armed, tell so and wait there until told to go.

        `asked` says how the transaction at hand is to end, for a fault that wants only one kind.
        """
        self.listen()
        if self._armed != step.value or (self._asked is not None and asked != self._asked):
            return
        self._armed = None
        self.report(Report(at=step.value, claims=claims))
        self._go = False
        while not self._go and self._take():
            pass

    def await_go(self) -> None:
        """Wait until told to go on, or to stop; where nobody tells anything, do not."""
        self._go = False
        while self._channel is not None and not self._go and not self.stopping and self._take():
            pass

    def _take(self) -> bool:
        """Read and obey; False once the run is gone."""
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
                self._armed, self._asked = command.arm, command.asked
            self._go = self._go or command.go
            self.replaced = self.replaced or command.replaced
            self.stopping = self.stopping or command.stop
        return True
