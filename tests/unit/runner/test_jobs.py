"""Jobs: instances of a custom pipeline that end by themselves with status 0, and are started again by a period."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.common.errors import StartFailed
from harness.common.waiting import wait_for
from harness.model.pipeline import JOB, PipelineSpec, StageSpec
from harness.processes.specs import ProgramRules
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.runner.final_state import DrainTimeouts, quiesce
from harness.runner.inject import FaultInjector
from harness.runner.nemesis import PlannedFault, Target, TargetMissing
from harness.testing.fake_cluster import FakeCluster
from nemeses.registry import NEMESES
from tests.support.fake_run import CUSTOM_PIPELINE, FakeEndMarkers, FakeRun, ShellProgram, fake_run
from tests.support.instances import WritingCluster

pytestmark = pytest.mark.processes

DONE = ShellProgram("echo nothing left")
SOON = DrainTimeouts(in_sync_s=0.2, drain_s=0.4, clean_up_s=0.2, reads_s=3.0, every_s=0.01)
KILL = PlannedFault("kill-instance", Target("worker", "s/s-1"), 0.0, 0.05)


def job(every_s: float | None = None, group: str | None = "g") -> PipelineSpec:
    (stage,) = CUSTOM_PIPELINE.stages
    return replace(CUSTOM_PIPELINE, stages=(replace(stage, kind=JOB, every_s=every_s, group=group),))


def start_and_end(run: FakeRun) -> None:
    member = run.processes.start_worker("s", "s-1")
    member.child.wait(10)


def incarnations(run: FakeRun) -> list[str]:
    return [member.journal for member in run.processes.all_processes if member.stage == "s"]


def test_a_job_is_ready_when_it_has_started_though_its_group_is_empty(tmp_path: Path) -> None:
    with fake_run(
        tmp_path, ShellProgram("exec sleep 600"), FakeCluster(groups={"g": [()]}), pipeline=job()
    ) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])


@pytest.mark.parametrize("rules", [ProgramRules(), ProgramRules("a line that it never prints")])
def test_a_job_that_ended_at_once_with_status_0_is_ready(rules: ProgramRules, tmp_path: Path) -> None:
    with fake_run(tmp_path, replace(DONE, rules=rules), pipeline=job()) as run:
        start_and_end(run)
        run.processes.await_ready(run.processes.all_processes)


def test_a_job_that_failed_before_its_line_did_not_start(tmp_path: Path) -> None:
    program = ShellProgram("echo no broker; exit 7", ProgramRules("started"))
    with fake_run(tmp_path, program, pipeline=job()) as run:
        start_and_end(run)
        with pytest.raises(StartFailed, match="ended while it started: no broker"):
            run.processes.await_ready(run.processes.all_processes)


def test_a_job_without_a_period_is_not_started_again_and_gives_no_warning(tmp_path: Path) -> None:
    with fake_run(tmp_path, DONE, pipeline=job()) as run:
        start_and_end(run)
        run.processes.replace_dead()
        assert run.processes.is_over("s")
        assert incarnations(run) == ["s-1.0"] and run.processes.unexpected_ends == []


def test_a_job_is_started_again_when_its_period_has_passed_since_its_last_start(tmp_path: Path) -> None:
    with fake_run(tmp_path, DONE, pipeline=job(every_s=60.0)) as run:
        start_and_end(run)
        first = run.processes.all_processes[0]
        first.started_ns = time.monotonic_ns() - 59_000_000_000
        run.processes.replace_dead()
        assert incarnations(run) == ["s-1.0"] and not run.processes.is_over("s")
        first.started_ns -= 1_000_000_000
        run.processes.replace_dead()
        run.processes.replace_dead()
        assert incarnations(run) == ["s-1.0", "s-1.1"] and run.processes.unexpected_ends == []


def test_a_job_that_ends_with_another_status_is_replaced_with_a_warning(tmp_path: Path) -> None:
    with fake_run(tmp_path, ShellProgram("echo fenced; exit 3"), pipeline=job(every_s=60.0)) as run:
        start_and_end(run)
        run.processes.replace_dead()
        assert incarnations(run) == ["s-1.0", "s-1.1"]
        (warning,) = run.processes.unexpected_ends
        assert warning.text == "s-1.0 ended unexpectedly: fenced"


def test_a_stage_that_is_no_job_gets_a_warning_when_it_ends_with_status_0(tmp_path: Path) -> None:
    with fake_run(tmp_path, DONE, pipeline=CUSTOM_PIPELINE) as run:
        start_and_end(run)
        run.processes.replace_dead()
        assert [warning.subject for warning in run.processes.unexpected_ends] == ["s-1.0"]


def test_a_job_is_started_until_nothing_is_left(tmp_path: Path) -> None:
    class LeftUntilThirdStart(FakeEndMarkers):
        def inputs_left(self, stage: StageSpec, starting: bool = False, ended: bool = False) -> int | None:
            return max(0, 3 - len(incarnations(run)))

    with fake_run(tmp_path, DONE, pipeline=job(every_s=0.01)) as run:
        start_and_end(run)
        quiesce(job(every_s=0.01), run.context, LeftUntilThirdStart(), run.run_log, SOON)
        assert len(incarnations(run)) == 3
        assert run.run_log.evidence_problems == []


def test_a_job_that_is_over_with_inputs_left_makes_the_run_unknown_at_once(tmp_path: Path) -> None:
    long = replace(SOON, drain_s=600.0)
    with fake_run(tmp_path, DONE, pipeline=job()) as run:
        start_and_end(run)
        quiesce(job(), run.context, FakeEndMarkers(inputs_left_values=[12]), run.run_log, long)
        first, second = run.run_log.evidence_problems
    assert (first.code, second.code) == ("not-drained", "inputs-left")
    assert first.text == (
        "s did not process all its inputs: 12 inputs left, and its instances have ended with status 0: add every_s to "
        "[[stage]] s, so that they are started again"
    )


def test_a_job_that_is_over_is_no_target(tmp_path: Path) -> None:
    with fake_run(tmp_path, DONE, pipeline=job(), time_scale=0.001) as run:
        start_and_end(run)
        with pytest.raises(
            TargetMissing, match=r"no instance of s was running: .* none of its instances is alive"
        ):
            NEMESES["kill-instance"].inject(run.context, KILL).__enter__()


def test_a_fault_without_a_target_did_not_act_and_the_run_goes_on(tmp_path: Path) -> None:
    with fake_run(tmp_path, DONE, pipeline=job(), time_scale=0.001) as run:
        start_and_end(run)
        with Journal(tmp_path / "journals" / "n.jsonl", 0, JournalBegan("n", role="nemesis")) as journal:
            injector = FaultInjector([KILL], NEMESES, run.context, journal)
            injector.start(time.monotonic())
            wait_for(lambda: injector.finished, "the end of the faults", 10)
        (report,) = injector.state.reports
    assert injector.state.errors == [] and not report.acted
    assert report.evidence.startswith("no instance of s was running")


def test_a_job_that_was_started_again_is_the_target(tmp_path: Path) -> None:
    done_file = tmp_path / "done"
    program = ShellProgram(f"[ -e {done_file} ] || {{ touch {done_file}; exit 0; }}; exec sleep 600")
    with fake_run(tmp_path, program, WritingCluster(), pipeline=job(every_s=0.01), time_scale=0.1) as run:
        start_and_end(run)
        wait_for(lambda: run.processes.replace_dead() or len(incarnations(run)) == 2, "the next start", 10)
        with NEMESES["kill-instance"].inject(run.context, KILL) as effect:
            pass
        assert effect.acted and effect.target == "instance s-1.1"
        assert incarnations(run) == ["s-1.0", "s-1.1", "s-1.2"]
