"""Wait for a condition, never for a time.

`wait_for` is the one place in the project that sleeps.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from harness.common.errors import WaitTimeout, in_words

T = TypeVar("T")
REPORT_AFTER = 0.25
"""Of the time that a wait may take: then whoever looks on is told what it waits for."""


def wait_for(
    probe: Callable[[], T | None],
    awaited: str,
    timeout_s: float,
    *,
    every_s: float = 0.05,
    last_seen: Callable[[], object] | None = None,
    tell: Callable[[str], None] | None = None,
) -> T:
    """Call `probe` until it gives something true, and return that.

    `awaited` completes the sentence "waited 10 s for ...". `last_seen` describes the state when
    the time is up; without it the last answer of `probe` is told. `harness.common.errors.in_words` says how an
    object is shown. `tell` is given both once, when a quarter of the time is over. Raises `WaitTimeout`.
    """
    began = time.monotonic()
    while True:
        answer = probe()
        if answer:
            return answer
        waited_s = time.monotonic() - began
        if waited_s >= timeout_s:
            raise WaitTimeout(awaited, timeout_s, last_seen() if last_seen else answer)
        if tell and waited_s >= timeout_s * REPORT_AFTER:
            seen = in_words(last_seen() if last_seen else answer)
            tell(f"waiting {timeout_s:g} s at most for {awaited}: {seen}")
            tell = None
        time.sleep(every_s)


def wait_while_progressing(
    probe: Callable[[], T | None],
    progress: Callable[[], object],
    awaited: str,
    patience_s: float,
    *,
    every_s: float = 0.2,
    last_seen: Callable[[], object] | None = None,
) -> T:
    """As `wait_for`, but the time begins again whenever `progress` gives something else than before.

    For work whose length nobody knows: it is given up once nothing has moved for `patience_s`.
    """
    deadline = time.monotonic() + patience_s
    before = progress()
    while True:
        answer = probe()
        if answer:
            return answer
        now = progress()
        if now != before:
            before, deadline = now, time.monotonic() + patience_s
        elif time.monotonic() >= deadline:
            raise WaitTimeout(
                f"{awaited}, without any progress", patience_s, last_seen() if last_seen else answer
            )
        time.sleep(every_s)
