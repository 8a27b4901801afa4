"""Ctrl-C while Spark works: it is ended at once, for a job that was interrupted may never answer."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.spark.session import StartingSpark


@contextmanager
def interruptible(pending: "StartingSpark") -> Iterator[None]:
    """For the length of a `with`, what makes an interrupt of a Ctrl-C ends Spark too: whoever waits for an
    answer of its gets an error, and then the interrupt comes through.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        try:
            before(number, frame)
        except KeyboardInterrupt:
            logging.getLogger().addFilter(_says_nothing)  # py4j tells of each answer that did not come
            pending.kill()
            raise

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pending.killed:
            pending.close()
        logging.getLogger().removeFilter(_says_nothing)


def _says_nothing(record: logging.LogRecord) -> bool:
    return "while sending command" not in record.getMessage()
