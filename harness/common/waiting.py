"""Wait for a condition, never for a time.

This module is the only place in the project that sleeps.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from harness.common.errors import WaitTimeout, in_words

T = TypeVar("T")
REPORT_AFTER = 0.25
"""The share of the time-out after which a wait reports what it waits for."""


def wait_for(
    probe: Callable[[], T | None],
    description: str,
    timeout_s: float,
    *,
    every_s: float = 0.05,
    last_seen: Callable[[], object] | None = None,
    report_wait: Callable[[str], None] | None = None,
) -> T:
    """Call `probe` until it returns a true value, and return this value.

    Args:
        description: Describes the condition. It completes the sentence "waited 10 s for ...".
        last_seen: Returns the state for the message. Without it, the message shows the last result of `probe`.
            `harness.common.errors.in_words` puts the state into words.
        report_wait: Called once with a progress message, after a quarter of the time-out.

    Raises:
        WaitTimeout: `probe` returned no true value within `timeout_s`.
    """
    began_s = time.monotonic()
    while True:
        result = probe()
        if result:
            return result
        waited_s = time.monotonic() - began_s
        if waited_s >= timeout_s:
            raise WaitTimeout(description, timeout_s, last_seen() if last_seen else result)
        if report_wait and waited_s >= timeout_s * REPORT_AFTER:
            state = in_words(last_seen() if last_seen else result)
            report_wait(f"waiting {timeout_s:g} s at most for {description}: {state}")
            report_wait = None
        time.sleep(every_s)


def wait_while_progressing(
    probe: Callable[[], T | None],
    progress: Callable[[], object],
    description: str,
    patience_s: float,
    *,
    every_s: float = 0.2,
    last_seen: Callable[[], object] | None = None,
    report_wait: Callable[[str], None] | None = None,
) -> T:
    """Wait as `wait_for` does, but start the time-out again whenever `progress` returns another value.

    Use it for work whose duration is not known. It raises `WaitTimeout` after `patience_s` without progress.
    `report_wait` is called once for each quarter of this time without progress, and says how long the wait goes on.
    """
    deadline_s = time.monotonic() + patience_s
    last_progress = progress()
    reports = 0
    while True:
        result = probe()
        if result:
            return result
        current_progress = progress()
        if current_progress != last_progress:
            last_progress, deadline_s, reports = current_progress, time.monotonic() + patience_s, 0
        elif time.monotonic() >= deadline_s:
            raise WaitTimeout(
                f"{description}, without any progress", patience_s, last_seen() if last_seen else result
            )
        left_s = deadline_s - time.monotonic()
        if report_wait and patience_s - left_s >= (reports + 1) * REPORT_AFTER * patience_s:
            reports += 1
            state = in_words(last_seen() if last_seen else result)
            report_wait(f"waiting {left_s:.0f} s more at most for {description}: {state}")
        time.sleep(every_s)
