"""End Spark at once on Ctrl-C, because a job that was interrupted may never answer."""

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
    """Context manager: inside, a Ctrl-C ends Spark too. A thread that waits for an answer of Spark gets an error, and
    then the interrupt.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        try:
            before(number, frame)
        except KeyboardInterrupt:
            logging.getLogger().addFilter(_is_not_lost_answer)  # py4j logs each answer that did not come
            pending.kill()
            raise

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pending.killed:
            pending.close()
        logging.getLogger().removeFilter(_is_not_lost_answer)


def _is_not_lost_answer(record: logging.LogRecord) -> bool:
    return "while sending command" not in record.getMessage()
