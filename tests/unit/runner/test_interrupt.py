"""Ctrl-C: the first one ends a run early, the second one stops it at once."""

import os
import signal

import pytest

from harness.runner.interrupt import Interrupt, InterruptPhase


def test_the_first_signal_ends_the_run_early_and_the_second_stops_it_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupt() as interrupt:
        interrupt.phase = InterruptPhase.UNDER_FAULTS
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second signal had no effect")


def test_without_a_result_to_save_the_first_signal_stops_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupt(at_once=True) as interrupt:
        interrupt.phase = InterruptPhase.UNDER_FAULTS
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("the first signal had no effect")


def test_a_system_error_caused_by_an_interrupt_is_raised_as_the_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupt():
        raise SystemError("a function returned a result with an exception set") from KeyboardInterrupt()


def test_another_system_error_is_not_changed() -> None:
    with pytest.raises(SystemError, match="bad"), Interrupt():
        raise SystemError("bad") from ValueError()
