"""Each process of a run can be built from its two specs alone."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fencepost.runs import planning
from fencepost.runs.process import build_custom_task, build_task
from harness.databases.interface import DatabaseParts
from harness.databases.registry import DATABASES
from harness.model.vocabulary import Isolation
from harness.processes.messages import decode
from harness.processes.spawn import Supervisor
from harness.processes.specs import (
    FeederSpec,
    FinalReaderSpec,
    ObserverSpec,
    ProcessSpec,
    RunSpec,
    TableReaderSpec,
    TaskSpec,
    WorkerSpec,
    WorkloadSpec,
)
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import Control
from harness.runner import run
from harness.runner.schedule import Schedule
from harness.settings.options import Options
from tests.support.specs import process_spec
from tests.support.user_pipeline import read_pipeline
from workloads.custom.pipeline import CustomPipeline
from workloads.registry import WORKLOADS

pytestmark = pytest.mark.processes

WITHOUT_A_SERVER = sorted(
    name for name, workload in WORKLOADS.items() if "postgres" not in workload.tables.values()
)


def tasks(plan: run.RunPlan) -> Iterator[TaskSpec]:
    for stage in plan.pipeline.stages:
        for worker in plan.workers[stage.name][:1]:
            yield WorkerSpec(
                stage.name, worker, 7, stage.group, transactional_id=stage.transactional_ids.get(worker)
            )
    if plan.pipeline.tables:
        yield TableReaderSpec(tuple(table.name for table in plan.pipeline.tables))
    yield from tasks_of_the_harness()


def tasks_of_the_harness() -> Iterator[TaskSpec]:
    yield FeederSpec(10.0)
    yield ObserverSpec(())
    for level in Isolation:
        yield FinalReaderSpec(level, (), None)


def build(plan: run.RunPlan, task: TaskSpec, folder: Path) -> object:
    """Build the object that does the task from the arguments of its process alone."""
    folder.mkdir()
    program = plan.programs[task.stage] if isinstance(task, WorkerSpec) else plan.harness_program
    *_, process_text, run_text = program.command_line(process_spec(folder, task, "p")).argv
    process, run_spec = decode(ProcessSpec, process_text), decode(RunSpec, run_text)
    assert process.task == task
    with Journal(process.journal.path, 0, JournalBegan("p")) as journal:
        if isinstance(run_spec.pipeline, WorkloadSpec):
            return build_task(process, run_spec, run_spec.pipeline, journal, Control(None))
        return build_custom_task(process, run_spec, run_spec.pipeline, journal, Control(None))


@pytest.mark.parametrize("name", WITHOUT_A_SERVER)
def test_every_process_of_a_workload_can_be_built_from_its_specs(name: str, tmp_path: Path) -> None:
    plan = planning.plan_run(Options(workload=name, seed=1), WORKLOADS[name], Schedule(()), tmp_path)
    with Supervisor() as supervisor, ExitStack() as stack:
        for kind in plan.pipeline.database_kinds:
            stack.enter_context(DATABASES[kind].provide(DatabaseParts(tmp_path, supervisor, lambda: 0)))
        for n, task in enumerate(tasks(plan)):
            assert build(plan, task, tmp_path / str(n))


def test_every_process_of_the_harness_for_a_custom_pipeline_can_be_built(tmp_path: Path) -> None:
    custom_pipeline = CustomPipeline(read_pipeline(tmp_path))
    plan = planning.plan_run(Options(seed=1), custom_pipeline, Schedule(()), tmp_path / "run")
    for n, task in enumerate([*tasks_of_the_harness(), FinalReaderSpec(Isolation.READ_COMMITTED, (), ())]):
        assert build(plan, task, tmp_path / str(n))


def test_a_process_of_a_run_starts_without_large_packages() -> None:
    """A run starts a dozen of them. These packages would take two thirds of the time of a start."""
    code = "import sys, fencepost.runs.process; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyarrow", "numpy", "kafka", "requests"} & set(loaded.stdout.split())
