"""Instances of a program that is a shell script, on a cluster that says what it is told to say."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.cluster import TransactionView
from harness.model.pipeline import CONSUMER_OFFSETS
from harness.processes.program import ProgramRules
from harness.runner.member import RunProcess
from harness.runner.nemesis import (
    InjectedFault,
    PlannedFault,
    Target,
)
from harness.testing.fake_cluster import FakeCluster
from nemeses.registry import NEMESES
from tests.support.fake_run import USERS, FakeRun, Plain, fake_run

FAULTS = ("kill-instance", "pause-instance")
STAYS = Plain("echo up; exec sleep 600", ProgramRules("up"))
ONCE = (("out", 0),)
DONE, OPEN = TransactionView("CompleteCommit", 7, 0, ()), TransactionView("Ongoing", 7, 0, ONCE)
WITH_OFFSETS = TransactionView("Ongoing", 7, 0, (*ONCE, (CONSUMER_OFFSETS, 3)))


@contextmanager
def running(
    folder: Path, cluster: FakeCluster, program: Plain = STAYS
) -> Iterator[tuple[FakeRun, RunProcess]]:
    with fake_run(folder, program, cluster, pipeline=USERS) as run:
        member = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([member])
        yield run, member


def struck(run: FakeRun, fault: str, state: str | None = None, *, prefers: bool = False) -> InjectedFault:
    parameters = {"prefers": "ongoing"} if prefers else {} if state is None else {"state": state}
    injection = PlannedFault(fault, Target("worker", "s/s-1"), 0.0, 0.05, parameters)
    with NEMESES[fault].inject(run.context, injection) as effect:
        pass
    run.processes.replace_dead()
    assert run.processes.unexpected_ends == []  # whoever ended was expected to
    return effect


def journals(run: FakeRun) -> list[str]:
    return [member.journal for member in run.processes.members]
