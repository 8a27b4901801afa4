"""When planned faults begin: each at its time, and not before the faults with which it shares a resource are over."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from harness.common.errors import FaultFailed
from harness.common.waiting import wait_for
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.runner.inject import FaultInjector
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    InjectedFault,
    Nemesis,
    PlannedFault,
    Resource,
    Target,
)
from tests.support.fake_run import fake_run

pytestmark = pytest.mark.processes

BROKER = frozenset({Resource.BROKERS})


@dataclass
class Recorder:
    """Faults that note when they begin and end. Each goes on until its event is set."""

    lines: list[str] = field(default_factory=list)
    events: dict[str, threading.Event] = field(default_factory=dict)
    fails: str = ""

    def nemesis(self, name: str, occupies: frozenset[Resource] = BROKER) -> Nemesis:
        self.events[name] = threading.Event()

        @contextmanager
        def inject(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
            self.lines.append(f"{name} begins")
            if name == self.fails:
                raise FaultFailed("the broker does not end")
            effect = InjectedFault(name)
            effect.add_proof("seen")
            yield effect
            assert self.events[name].wait(10)
            self.lines.append(f"{name} ends")

        return Nemesis(
            name=name,
            summary="",
            past_tense="",
            hold_s=1.0,
            recovery_s=0.0,
            draw=lambda rng, targets: DrawnFault(Target("broker", "1")),
            inject=inject,
            occupies=lambda planned: occupies,
        )

    def await_line(self, line: str) -> None:
        wait_for(lambda: line in self.lines, line, 10, last_seen=lambda: self.lines)


def planned(name: str, start_s: float, hold_s: float) -> PlannedFault:
    return PlannedFault(name, Target("broker", name), start_s, hold_s)


@contextmanager
def injecting(
    folder: Path, recorder: Recorder, *faults: PlannedFault, **occupied: frozenset[Resource]
) -> Iterator[FaultInjector]:
    nemeses = {
        fault.fault: recorder.nemesis(fault.fault, occupied.get(fault.fault, BROKER)) for fault in faults
    }
    with (
        fake_run(folder) as run,
        Journal(folder / "n.jsonl", 0, JournalBegan("n", role="nemesis")) as journal,
    ):
        injector = FaultInjector(faults, nemeses, run.context, journal)
        injector.start(time.monotonic())
        try:
            yield injector
        finally:
            for event in recorder.events.values():
                event.set()
            injector.stop()


def await_finished(injector: FaultInjector) -> None:
    wait_for(lambda: injector.finished, "the end of all faults", 10)


def test_faults_that_overlap_by_plan_are_active_together(tmp_path: Path) -> None:
    recorder = Recorder()
    with injecting(tmp_path, recorder, planned("a", 0.0, 0.05), planned("b", 0.02, 0.05)) as injector:
        recorder.await_line("b begins")
        assert recorder.lines == ["a begins", "b begins"]
        assert set(injector.state.active.values()) == {"a", "b"}
        recorder.events["b"].set()
        recorder.await_line("b ends")
        recorder.events["a"].set()
        await_finished(injector)
    assert recorder.lines[2:] == ["b ends", "a ends"]


def test_a_fault_waits_for_an_earlier_one_that_is_late_if_they_share_a_resource(tmp_path: Path) -> None:
    recorder = Recorder()
    faults = (planned("a", 0.0, 0.01), planned("b", 0.02, 0.01), planned("c", 0.03, 0.01))
    with injecting(tmp_path, recorder, *faults, c=frozenset({Resource.WORKERS})) as injector:
        recorder.await_line("c begins")
        assert recorder.lines == ["a begins", "c begins"]
        recorder.events["a"].set()
        recorder.await_line("b begins")
        assert "a ends" in recorder.lines
        recorder.events["b"].set()
        recorder.events["c"].set()
        await_finished(injector)


def test_no_fault_begins_after_one_has_failed(tmp_path: Path) -> None:
    recorder = Recorder(fails="a")
    faults = (planned("a", 0.0, 0.01), planned("b", 0.02, 0.01))
    with injecting(tmp_path, recorder, *faults) as injector:
        await_finished(injector)
        assert [str(error) for error in injector.state.errors] == ["the broker does not end"]
    assert recorder.lines == ["a begins"]


def test_a_stop_heals_the_active_faults_and_begins_no_other(tmp_path: Path) -> None:
    recorder = Recorder()
    with injecting(tmp_path, recorder, planned("a", 0.0, 600.0), planned("b", 700.0, 1.0)) as injector:
        recorder.await_line("a begins")
        recorder.events["a"].set()
        injector.stop()
        assert injector.finished and recorder.lines == ["a begins", "a ends"]
        assert [report.fault for report in injector.state.reports] == ["a"]


def test_a_fault_learns_of_the_stop_and_may_need_more_time_than_others(tmp_path: Path) -> None:
    recorder = Recorder()
    seen: list[bool] = []

    @contextmanager
    def inject(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
        seen.append(context.stopping())
        wait_for(context.stopping, "the stop", 10)
        seen.append(context.stopping())
        yield InjectedFault("long")

    long = replace(recorder.nemesis("long"), inject=inject, overtime_s=60.0)
    nemeses = {"long": long, "a": recorder.nemesis("a")}
    faults = [planned("a", 700.0, 1.0), planned("long", 0.0, 0.0)]
    began = JournalBegan("nemesis", role="nemesis")
    with fake_run(tmp_path) as run, Journal(tmp_path / "own.jsonl", 0, began) as journal:
        injector = FaultInjector(faults, nemeses, run.context, journal)
        assert injector.overtime_s == 60.0
        injector.start(time.monotonic())
        wait_for(lambda: seen, "the fault to begin", 10)
        injector.stop()
    assert seen == [False, True]


def test_a_run_without_faults_is_finished_at_once(tmp_path: Path) -> None:
    with injecting(tmp_path, Recorder()) as injector:
        await_finished(injector)
