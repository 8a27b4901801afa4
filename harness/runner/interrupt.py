"""Ctrl-C: while there is something to judge the first one ends the run early; any other gives up."""

import os
import signal
import threading
from enum import StrEnum
from types import FrameType, TracebackType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptPhase(StrEnum):
    """How far the run is, and with it what a first signal does. The value is what is said of it."""

    SETTING_UP = ""
    UNDER_FAULTS = (
        "interrupted: healing the cluster, then judging what was recorded; press Ctrl-C again to stop now"
    )
    MEASURING = "interrupted: drawing what was measured so far; press Ctrl-C again to stop now"
    SUITE = "interrupted: ending the runs that go on, then judging those that are over; press Ctrl-C again to stop now"
    JUDGING = "the run is over and is being judged; press Ctrl-C again to stop without a verdict"


class Interrupt:
    """A context manager that turns a signal into a flag, or into KeyboardInterrupt.

    A KeyboardInterrupt in the middle of a call into C comes out of it as a SystemError, and leaves this as itself.
    """

    def __init__(self) -> None:
        self.stage = InterruptPhase.SETTING_UP
        self._heard = False
        self._cut_short = threading.Event()
        self._before: dict[signal.Signals, object] = {}

    @property
    def requested(self) -> bool:
        """Whether the run was asked to end early, while it could."""
        return self._cut_short.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait to be asked, for so long at most; whether that came."""
        return self._cut_short.wait(timeout_s)

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
        if self._heard or self.stage is InterruptPhase.SETTING_UP:
            raise KeyboardInterrupt
        self._heard = True
        # Not through the progress or a stream: the signal may have come in the middle of a line of theirs.
        os.write(2, f"\nfencepost: {self.stage.value}\n".encode())
        if self.stage in (InterruptPhase.UNDER_FAULTS, InterruptPhase.MEASURING, InterruptPhase.SUITE):
            self._cut_short.set()
