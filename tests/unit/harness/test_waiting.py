"""The progress messages and time-outs of waits."""

from dataclasses import dataclass

import pytest

from harness.cluster import TransactionView
from harness.common import waiting
from harness.common.errors import WaitTimeout, in_words
from harness.common.waiting import wait_for, wait_while_progressing
from harness.containers.container import ContainerState
from harness.processes.messages import Counts, ProcessStatus


class Clock:
    """A clock that only `sleep` advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(waiting.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(waiting.time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(("ready_s", "report_times"), [(14.0, []), (16.0, [15.0]), (59.0, [15.0])])
def test_a_long_wait_reports_once_what_it_waits_for(
    ready_s: float, report_times: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    reports: list[tuple[float, str]] = []
    wait_for(
        lambda: clock.now_s >= ready_s,
        "the billing to be ready",
        60.0,
        every_s=1.0,
        last_seen=lambda: "0 members",
        report_wait=lambda words: reports.append((clock.now_s, words)),
    )
    assert [time_s for time_s, _ in reports] == report_times
    assert all(words == "waiting 60 s at most for the billing to be ready: 0 members" for _, words in reports)


def test_a_wait_ends_at_its_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(WaitTimeout, match="waited 3 s for a sign; last seen: nothing"):
        wait_for(lambda: None, "a sign", 3.0, every_s=1.0)
    assert clock.now_s == 3.0


def test_a_wait_without_progress_says_how_long_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    reports: list[tuple[float, str]] = []
    with pytest.raises(WaitTimeout):
        wait_while_progressing(
            lambda: None,
            lambda: clock.now_s >= 5,  # it makes progress once
            "g to commit",
            8.0,
            every_s=1.0,
            last_seen=lambda: "an unknown number of inputs left",
            report_wait=lambda words: reports.append((clock.now_s, words)),
        )
    assert [at_s for at_s, _ in reports] == [2, 4, 7, 9, 11]
    assert reports[0][1] == "waiting 6 s more at most for g to commit: an unknown number of inputs left"


@dataclass
class WithoutText:
    """An object whose class has no `__str__`."""

    ready: bool = False


def test_a_time_out_shows_no_repr_of_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    reports: list[str] = []
    with pytest.raises(WaitTimeout) as waiting_error:
        wait_for(lambda: None, "a sign", 3.0, every_s=1.0, last_seen=WithoutText, report_wait=reports.append)
    with pytest.raises(WaitTimeout) as progress_error:
        wait_while_progressing(lambda: None, lambda: 1, "a sign", 3.0, last_seen=lambda: [WithoutText()])
    for words in (str(waiting_error.value), str(progress_error.value), *reports):
        assert "an object without a text form (WithoutText)" in words and "ready=" not in words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing"),
        ([], "nothing"),
        (0, "0"),
        (False, "no"),
        (["broker 1", "broker 2"], "broker 1, broker 2"),
        ({4711: "running"}, "4711: running"),
        (WaitTimeout("a sign", 2, None), "waited 2 s for a sign; last seen: nothing"),
        (TransactionView("Ongoing", 7, 0, (("out", 0), ("out", 2))), "Ongoing with out/0, out/2"),
        (TransactionView("Empty", 7, 0, ()), "Empty with no partition"),
        (ContainerState("exited", 0, 137, True), "exited with status 137, out of memory"),
        (ContainerState("running", 7, 0, False), "running"),
        (ProcessStatus(), "it is not ready yet, is stopped at no step"),
        (
            ProcessStatus(ready=True, step="after-send", counts=Counts(inputs=10, failed=0)),
            "it is ready, is stopped at the step after-send, has counted 10 inputs",
        ),
    ],
)
def test_the_last_state_is_shown_as_text(value: object, words: str) -> None:
    assert in_words(value) == words
