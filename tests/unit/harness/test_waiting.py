"""What a wait tells while it lasts."""

import pytest

from harness import waiting
from harness.errors import WaitTimeout
from harness.waiting import wait_for


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(waiting.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(waiting.time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(("ready_s", "told"), [(14.0, []), (16.0, [15.0]), (59.0, [15.0])])
def test_a_long_wait_tells_once_what_it_waits_for(
    ready_s: float, told: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    heard: list[tuple[float, str]] = []
    wait_for(
        lambda: clock.now_s >= ready_s,
        "the billing to be ready",
        60.0,
        every_s=1.0,
        last_seen=lambda: "0 members",
        tell=lambda words: heard.append((clock.now_s, words)),
    )
    assert [at for at, _ in heard] == told
    assert all(words == "waiting 60 s at most for the billing to be ready: 0 members" for _, words in heard)


def test_a_wait_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(WaitTimeout, match="waited 3 s for a sign; last seen: None"):
        wait_for(lambda: None, "a sign", 3.0, every_s=1.0)
    assert clock.now_s == 3.0
