"""A call that lasts too long is reported once, and so is its return."""

import json
import threading
from pathlib import Path

import pytest

from harness.processes.messages import Report
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import LONG_CHECKS, Calls, CallWatch, Control


class ReportsKept(Control):
    """A control line that keeps the reports."""

    def __init__(self) -> None:
        super().__init__(None)
        self.reports: list[Report] = []

    def report(self, report: Report) -> None:
        self.reports.append(report)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "w.jsonl", 0, JournalBegan("w"))


def notes(journal: Journal, folder: Path) -> list[dict[str, object]]:
    journal.close()
    lines = map(json.loads, (folder / "w.jsonl").read_text().splitlines())
    return [line for line in lines if line["type"] == "note"]


def test_a_long_call_is_reported_once_and_noted(tmp_path: Path, journal: Journal) -> None:
    control = ReportsKept()
    watch = CallWatch(control, journal)

    def look_often() -> None:
        for _ in range(LONG_CHECKS - 1):
            watch.check()
        assert control.reports == []
        watch.check()
        watch.check()

    control.calls.during("send_offsets_to_transaction", 4, look_often)
    (reported,) = control.reports
    assert reported.slow_call == "send_offsets_to_transaction"
    watch.check()
    watch.check()
    assert control.reports[1:] == [Report(slow_call_since_ns=0)]
    (note,) = notes(journal, tmp_path)
    assert (note["op"], note["waits"], note["since"]) == (4, reported.slow_call, reported.slow_call_since_ns)


def test_many_short_calls_are_not_a_long_call(tmp_path: Path, journal: Journal) -> None:
    control = ReportsKept()
    watch = CallWatch(control, journal)
    for op in range(3 * LONG_CHECKS):
        control.calls.during("commit_transaction", op, watch.check)
    assert control.reports == [] and notes(journal, tmp_path) == []


def test_a_call_that_raises_has_ended() -> None:
    calls = Calls()
    with pytest.raises(ZeroDivisionError):
        calls.during("abort_transaction", 1, lambda: 1 // 0)
    assert calls.now is None


def test_the_watch_looks_in_a_second_thread(monkeypatch: pytest.MonkeyPatch, journal: Journal) -> None:
    monkeypatch.setattr("harness.roles.control.CHECK_INTERVAL_S", 0.001)
    control, reported = ReportsKept(), threading.Event()
    monkeypatch.setattr(control, "report", lambda report: reported.set())
    with CallWatch(control, journal).watching():
        control.calls.during("init_transactions", 0, lambda: reported.wait(20))
    assert reported.is_set()
