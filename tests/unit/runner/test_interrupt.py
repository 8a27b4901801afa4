"""Ctrl-C: the first one while there is something to judge, and any other."""

import os
import signal

import pytest

from harness.runner.interrupt import Interrupt, InterruptPhase


def test_the_first_signal_under_faults_ends_the_run_early_and_the_second_gives_up() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupt() as interrupt:
        interrupt.phase = InterruptPhase.UNDER_FAULTS
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second one was not heard")


def test_what_c_makes_of_an_interrupt_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupt():
        raise SystemError("a function returned a result with an exception set") from KeyboardInterrupt()


def test_any_other_mistake_stays_what_it_is() -> None:
    with pytest.raises(SystemError, match="bad"), Interrupt():
        raise SystemError("bad") from ValueError()
