"""When a Ctrl-C ends Spark, and when it does not."""

import signal
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from checkers.spark.session import StartingSpark, interruptible


class FakeSpark:
    """Records what was called."""

    def __init__(self) -> None:
        self.killed = self.closed = self.others_killed = False

    def kill(self) -> None:
        self.killed = True

    def kill_others(self) -> None:
        self.others_killed = True

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def pending() -> FakeSpark:
    return FakeSpark()


@pytest.fixture
def handled() -> Iterator[None]:
    """As Python starts: an interrupt is a KeyboardInterrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handled")
def test_an_interrupt_kills_spark_and_comes_through(pending: FakeSpark) -> None:
    with pytest.raises(KeyboardInterrupt), interruptible(cast(StartingSpark, pending), pending.kill_others):
        signal.raise_signal(signal.SIGINT)
    assert (pending.killed, pending.closed, pending.others_killed) == (True, True, True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("handled")
def test_without_an_interrupt_nothing_is_killed_or_closed(pending: FakeSpark) -> None:
    with interruptible(cast(StartingSpark, pending), pending.kill_others):
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert (pending.killed, pending.closed, pending.others_killed) == (False, False, False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("handled")
def test_ignored_interrupts_remain_ignored(pending: FakeSpark) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruptible(cast(StartingSpark, pending), pending.kill_others):
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.raise_signal(signal.SIGINT)
    assert not pending.killed


@pytest.mark.usefixtures("handled")
def test_another_thread_leaves_interrupts_alone(pending: FakeSpark) -> None:
    seen: list[object] = []

    def work() -> None:
        with interruptible(cast(StartingSpark, pending), pending.kill_others):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
