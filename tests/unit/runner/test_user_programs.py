"""Instances of custom pipelines have no control line. The run knows their output, their group and their exit."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness.common.errors import PipelineFailed, StartFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.processes.spawn import Supervisor
from harness.processes.specs import ProgramRules
from harness.results.reasons import Reason
from harness.runner import processes as processes_module
from harness.runner.final_state import DrainTimeouts, quiesce
from harness.runner.interrupt import Interrupt
from harness.runner.processes import RunClock
from harness.runner.run import EarlyStart, RunPlan, RunResources, perform
from harness.runner.run_log import RunLog
from harness.runner.run_process import RunProcess
from harness.settings.options import Options
from harness.testing.fake_cluster import FakeCluster
from tests.support.fake_run import (
    CUSTOM_PIPELINE,
    FakeEndMarkers,
    FakeRun,
    RecordedProgress,
    ShellProgram,
    fake_run,
)

pytestmark = pytest.mark.processes

SOON = DrainTimeouts(in_sync_s=0.2, drain_s=0.4, clean_up_s=0.2, reads_s=3.0, every_s=0.01)
BY_LINE = ProgramRules(ready="^started in [0-9]+ ms$")
STAYS = "exec sleep 600"


def start(run: FakeRun, worker: str = "s-1") -> RunProcess:
    return run.processes.start_worker("s", worker)


def start_ready(run: FakeRun, worker: str = "s-1") -> RunProcess:
    member = start(run, worker)
    run.processes.await_ready([member])
    return member


def await_end(member: RunProcess) -> None:
    wait_for(lambda: not member.alive, "its end", 10)


def test_an_instance_is_ready_after_it_prints_the_line(tmp_path: Path) -> None:
    continue_file = tmp_path / "goes-on"
    body = f"echo started; until [ -e {continue_file} ]; do sleep 0.02; done; echo started in 12 ms; {STAYS}"
    with fake_run(tmp_path, ShellProgram(body, BY_LINE), pipeline=CUSTOM_PIPELINE) as run:
        member = start(run)
        wait_for(lambda: member.has_printed("^started$"), "its first line", 10)
        assert run.processes.is_starting("s")
        continue_file.touch()
        run.processes.await_ready([member])
        assert member.status.ready and member.alive


def test_an_instance_without_a_line_is_ready_when_its_group_is_complete(tmp_path: Path) -> None:
    looks: list[tuple[str, ...] | None] = [None, (), ("a",), None, ("a", "b")]
    with fake_run(
        tmp_path, ShellProgram(STAYS), FakeCluster(groups={"g": looks}), pipeline=CUSTOM_PIPELINE
    ) as run:
        members = [start(run, "s-1"), start(run, "s-2")]
        run.processes.await_ready(members[:1])
        assert looks == [("a", "b")]  # the first process was not ready before the group had both


def test_an_instance_without_a_line_and_a_group_is_ready_at_once(tmp_path: Path) -> None:
    alone = replace(CUSTOM_PIPELINE, stages=(replace(CUSTOM_PIPELINE.stages[0], group=None),))
    with fake_run(tmp_path, ShellProgram(STAYS), pipeline=alone) as run:
        assert start_ready(run).status.ready


def test_the_last_output_of_an_instance_that_has_just_ended_is_read(tmp_path: Path) -> None:
    with fake_run(tmp_path, ShellProgram("echo no broker; exit 7"), pipeline=CUSTOM_PIPELINE) as run:
        for n in range(40):
            member = start(run, f"s-{n}")
            member.child.wait(10)
            assert member.last_output() == "no broker"


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ("up", "s-1.0 has printed no line that matches 'up'"),
        (None, "s-1.0 is not ready, because its group g has 0 members; 1 is expected"),
    ],
)
def test_the_wait_for_an_instance_ends_after_its_own_time_out(
    line: str | None, lacks: str, tmp_path: Path
) -> None:
    program = ShellProgram(STAYS, ProgramRules(line, ready_within_s=0.3))
    message = rf"waited 0\.3 s for all processes .* last seen: {re.escape(lacks)}"
    with (
        fake_run(tmp_path, program, pipeline=CUSTOM_PIPELINE) as run,
        pytest.raises(WaitTimeout, match=message),
    ):
        start_ready(run)


@pytest.mark.parametrize(
    ("body", "message"),
    [("echo hello; echo no broker >&2; exit 7", "no broker"), ("exit 7", "it printed nothing")],
)
def test_the_error_of_an_instance_that_exits_at_once_has_its_last_output(
    body: str, message: str, tmp_path: Path
) -> None:
    pattern = rf"s-1\.0 ended while it started: {message}"
    with (
        fake_run(tmp_path, ShellProgram(body), pipeline=CUSTOM_PIPELINE) as run,
        pytest.raises(StartFailed, match=pattern),
    ):
        start_ready(run)


def test_an_instance_that_exits_again_and_again_fails_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "MAX_EXITS", 3)
    with fake_run(tmp_path, ShellProgram("echo no broker; exit 7"), pipeline=CUSTOM_PIPELINE) as run:
        start(run, "s-10")  # its exits do not count for s-1
        start(run)
        for _ in range(2):
            await_end(run.processes.all_processes[-1])
            await_end(run.processes.all_processes[-2])
            run.processes.replace_dead()
        await_end(run.processes.all_processes[-1])
        await_end(run.processes.all_processes[-2])
        for _ in range(2):  # the pipeline remains failed, and each exit leads to one warning
            with pytest.raises(
                PipelineFailed,
                match=r"s-1.? exited 3 times; process \d+ ended with status 7, and .*: no broker$",
            ):
                run.processes.replace_dead()
        subjects = [why.subject for why in run.processes.unexpected_ends]
        assert sorted(subjects) == sorted({*subjects})
        assert {"s-1.0", "s-1.1", "s-10.0", "s-10.1"} < {*subjects}


def test_a_paused_instance_is_stopped_by_its_own_signal(tmp_path: Path) -> None:
    body = "trap 'echo bye; exit 3' USR1; echo started in 1 ms; while :; do sleep 0.05; done"
    program = ShellProgram(body, replace(BY_LINE, stop_signal="SIGUSR1"))
    with fake_run(tmp_path, program, pipeline=CUSTOM_PIPELINE) as run:
        member = start_ready(run)
        member.child.pause()
        assert run.processes.stop([member]) == []
        assert (member.child.poll(), member.last_output()) == (3, "bye")
        run.processes.replace_dead()
        assert run.processes.unexpected_ends == []


def test_an_instance_that_ignores_its_signal_is_killed_with_a_warning(tmp_path: Path) -> None:
    body = "trap '' TERM; echo started in 1 ms; while :; do sleep 600; done"
    with fake_run(
        tmp_path, ShellProgram(body, replace(BY_LINE, stop_within_s=0.3)), pipeline=CUSTOM_PIPELINE
    ) as run:
        member = start_ready(run)
        quiesce(CUSTOM_PIPELINE, run.context, FakeEndMarkers(), run.run_log, SOON)
        assert member.child.ending().endswith("ended by SIGKILL")
        assert run.run_log.evidence_problems == []
        (warning,) = run.run_log.unexpected_errors
    assert (warning.code, warning.subject) == ("did-not-stop", "s-1.0")
    assert warning.text == "s-1.0 did not end within 0.3 s after SIGTERM, and was killed"


def test_a_bounded_log_has_its_first_and_its_last_part(tmp_path: Path) -> None:
    body = f"echo started in 1 ms; yes filler | head -c 4900000; echo and this was all; {STAYS}"
    with fake_run(tmp_path, ShellProgram(body, BY_LINE), pipeline=CUSTOM_PIPELINE) as run:
        member = start_ready(run)
        wait_for(lambda: member.last_output() == "and this was all", "all of it", 20)
        assert member.has_printed("^started in 1 ms$")
        sizes = [file.stat().st_size for file in (tmp_path / "workers").glob("s-1.0.log*")]
    assert len(sizes) == 3 and sum(sizes) < 3 * 600_000


@dataclass
class FileAtFaults(RecordedProgress):
    """Makes a file when the faults begin."""

    at_faults: Path

    def __post_init__(self) -> None:
        super().__init__()

    def phase(self, name: str) -> None:
        super().phase(name)
        if name == "faults":
            self.at_faults.touch()


def perform_run(folder: Path, program: ShellProgram) -> tuple[Sequence[Reason], Sequence[str]]:
    """Return the evidence problems of a whole run, and its phases."""
    (folder / "journals").mkdir()
    progress = FileAtFaults(folder / "faults-began")
    log = RunLog(progress, RunClock(time.monotonic_ns(), time.time() * 1000))
    options, endpoints = Options(time_limit_s=600, rate=10), ("w0", "w1", "w2")
    plan = RunPlan(
        options,
        folder,
        CUSTOM_PIPELINE,
        {"s": ("s-1",)},
        endpoints,
        (),
        {},
        {"s": program},
        program,
        timeouts=SOON,
    )
    with Supervisor() as supervisor:
        running: Any = RunResources(FakeCluster(), supervisor, Interrupt(), FakeEndMarkers())
        prepared: list[bool] = []
        final_state = perform(plan, running, log, EarlyStart(lambda: prepared.append(True), 0.0))
    assert prepared == [True]  # the run is checked in any case
    assert final_state.leaders.keys() >= set(CUSTOM_PIPELINE.topic_partitions)  # the final state was read
    return log.evidence_problems, progress.lines


def test_a_pipeline_that_does_not_start_is_an_evidence_problem(tmp_path: Path) -> None:
    (problem,), phases = perform_run(tmp_path, ShellProgram("echo no broker; exit 7", BY_LINE))
    assert (problem.code, problem.subject) == ("never-came-up", "s-1.0")
    assert problem.text == "the pipeline did not start: s-1.0 ended while it started: no broker"
    assert "workers/" in problem.remedy and "faults" not in phases


def test_a_pipeline_that_is_never_ready_is_reported_with_its_last_output(tmp_path: Path) -> None:
    program = ShellProgram(f"echo waiting for a schema; {STAYS}", replace(BY_LINE, ready_within_s=0.5))
    (problem,), phases = perform_run(tmp_path, program)
    assert problem.code == "never-came-up" and "faults" not in phases
    assert problem.text.endswith("the last output of s-1.0: waiting for a schema")


def test_a_pipeline_that_exits_again_and_again_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "MAX_EXITS", 2)
    ends = (
        f"echo started in 1 ms; until [ -e {tmp_path}/faults-began ]; do sleep 0.02; done; echo oops; exit 7"
    )
    problems, phases = perform_run(tmp_path, ShellProgram(ends, BY_LINE))
    assert [problem.code for problem in problems] == ["pipeline-failed", "not-drained"]
    assert "s-1 exited 2 times" in problems[0].text and "faults" in phases
    assert problems[0].text.endswith("its last output was: oops")
