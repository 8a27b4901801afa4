"""Handles Ctrl-C. The effect of the first one depends on the phase (`InterruptPhase`). The next one exits at once."""

import os
import signal
import threading
from enum import StrEnum
from types import FrameType, TracebackType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptPhase(StrEnum):
    """The phase of a command, which decides what the first signal does. The value is the message to the user."""

    SETTING_UP = ""
    UNDER_FAULTS = (
        "interrupted: healing the cluster, then checking the evidence so far; press Ctrl-C again to stop now"
    )
    SUITE = (
        "interrupted: ending the active runs, then checking all runs that have ended; "
        "press Ctrl-C again to stop now"
    )
    CHECKING = (
        "the run is over and its evidence is being checked; press Ctrl-C again to stop without a verdict"
    )


class Interrupt:
    """A context manager that turns a signal into a flag, or into a KeyboardInterrupt.

    If a KeyboardInterrupt occurs in a call into C, Python raises a SystemError from it. `__exit__` raises the
    KeyboardInterrupt again.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once  # raise at the first signal: nothing would come of a longer run
        self.phase = InterruptPhase.SETTING_UP
        self._signalled = False
        self._end_early = threading.Event()
        self._before: dict[signal.Signals, object] = {}

    @property
    def requested(self) -> bool:
        """True if a signal has asked the command to end early."""
        return self._end_early.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` until a signal asks the command to end early. Return whether one did."""
        return self._end_early.wait(timeout_s)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._at_once or self._signalled or self.phase is InterruptPhase.SETTING_UP:
            raise KeyboardInterrupt
        self._signalled = True
        # Write to the file descriptor, because the signal may interrupt a write of the progress output.
        os.write(2, f"\nfencepost: {self.phase.value}\n".encode())
        if self.phase in (InterruptPhase.UNDER_FAULTS, InterruptPhase.SUITE):
            self._end_early.set()
