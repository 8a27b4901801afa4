"""Ctrl-C: the first one ends the run early and lets it be judged, the second one gives up."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """A context manager that turns the first signal into a flag and the second into KeyboardInterrupt."""

    def __init__(self) -> None:
        self._flag = threading.Event()
        self._before: dict[signal.Signals, object] = {}
        self.harvest = False  # there is something to judge: the first signal only ends the run early

    @property
    def came(self) -> bool:
        """Whether the run was asked to end."""
        return self._flag.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for a signal, for so long at most; whether one came."""
        return self._flag.wait(timeout_s)

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

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._flag.is_set() or not self.harvest:
            self._flag.set()
            raise KeyboardInterrupt
        self._flag.set()
