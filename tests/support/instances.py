"""Instances of a custom pipeline whose program is a shell script, on a cluster in memory."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.cluster import TransactionView
from harness.model.pipeline import CONSUMER_OFFSETS
from harness.processes.specs import ProgramRules
from harness.runner.nemesis import (
    InjectedFault,
    PlannedFault,
    Target,
)
from harness.runner.run_process import RunProcess
from harness.testing.fake_cluster import FakeCluster
from nemeses.registry import NEMESES
from tests.support.fake_run import CUSTOM_PIPELINE, FakeRun, ShellProgram, fake_run

FAULTS = ("kill-instance", "pause-instance")
RUNS_FOREVER = ShellProgram("echo up; exec sleep 600", ProgramRules("up"))
PARTITIONS = (("out", 0),)
COMPLETED, ONGOING = (
    TransactionView("CompleteCommit", 7, 0, ()),
    TransactionView("Ongoing", 7, 0, PARTITIONS),
)
ONGOING_WITH_OFFSETS = TransactionView("Ongoing", 7, 0, (*PARTITIONS, (CONSUMER_OFFSETS, 3)))


class WritingCluster(FakeCluster):
    """A cluster on which the output topic has one more record at each look."""

    looks = 0

    def log_offsets(self, topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
        self.looks += 1
        return {("out", 0): (0, self.looks, self.looks)}


@contextmanager
def run_instance(
    folder: Path, cluster: FakeCluster, program: ShellProgram = RUNS_FOREVER, *, time_scale: float = 0.003
) -> Iterator[tuple[FakeRun, RunProcess]]:
    """A run with one instance that is ready. `time_scale`: see `FaultContext`."""
    with fake_run(folder, program, cluster, pipeline=CUSTOM_PIPELINE, time_scale=time_scale) as run:
        member = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([member])
        yield run, member


def inject(
    run: FakeRun, fault: str, state: str | None = None, *, prefers: str | None = None
) -> InjectedFault:
    """Inject a fault into the instance, and heal it. Assert that no other instance ended."""
    parameters = {"prefers": prefers} if prefers else {} if state is None else {"state": state}
    planned = PlannedFault(fault, Target("worker", "s/s-1"), 0.0, 0.05, parameters)
    with NEMESES[fault].inject(run.context, planned) as effect:
        pass
    run.processes.replace_dead()
    assert run.processes.unexpected_ends == []
    return effect


def journal_names(run: FakeRun) -> list[str]:
    return [member.journal for member in run.processes.all_processes]
