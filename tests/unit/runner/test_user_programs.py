"""A program of a user's says nothing on a control line: it is known by what it prints, its group and its end."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness.common.errors import PipelineFailed, StartFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.processes.program import ProgramRules
from harness.processes.spawn import Supervisor
from harness.results.reasons import Reason
from harness.runner import processes as processes_module
from harness.runner.final_state import DrainTimeouts, quiesce
from harness.runner.interrupt import Interrupt
from harness.runner.member import RunProcess
from harness.runner.processes import RunClock
from harness.runner.run import Preparation, RunResources, perform
from harness.runner.run import RunPlan as Planned
from harness.runner.run_log import RunLog
from harness.settings.options import Options
from harness.testing.fake_cluster import FakeCluster
from tests.support.fake_run import USERS, FakeEnds, FakeRun, Plain, Silent, fake_run

SOON = DrainTimeouts(in_sync_s=0.2, drain_s=0.4, clean_up_s=0.2, reads_s=3.0, every_s=0.01)
BY_LINE = ProgramRules(ready="^started in [0-9]+ ms$")
STAYS = "exec sleep 600"


def started(run: FakeRun, worker: str = "s-1") -> RunProcess:
    return run.processes.start_worker("s", worker)


def ready(run: FakeRun, worker: str = "s-1") -> RunProcess:
    member = started(run, worker)
    run.processes.await_ready([member])
    return member


def ended(member: RunProcess) -> None:
    wait_for(lambda: not member.alive, "its end", 10)


def test_one_is_ready_once_it_prints_the_line(tmp_path: Path) -> None:
    goes_on = tmp_path / "goes-on"
    body = f"echo started; until [ -e {goes_on} ]; do sleep 0.02; done; echo started in 12 ms; {STAYS}"
    with fake_run(tmp_path, Plain(body, BY_LINE), pipeline=USERS) as run:
        member = started(run)
        wait_for(lambda: member.has_printed("^started$"), "its first line", 10)
        assert run.processes.is_starting("s")
        goes_on.touch()
        run.processes.await_ready([member])
        assert member.status.ready and member.alive


def test_one_that_says_nothing_is_ready_once_its_group_has_all_of_its_stage(tmp_path: Path) -> None:
    looks: list[tuple[str, ...] | None] = [None, (), ("a",), None, ("a", "b")]
    with fake_run(tmp_path, Plain(STAYS), FakeCluster(groups={"g": looks}), pipeline=USERS) as run:
        members = [started(run, "s-1"), started(run, "s-2")]
        run.processes.await_ready(members[:1])
        assert looks == [("a", "b")]  # not one of them before the group had both


def test_one_without_a_group_and_a_line_is_ready_when_it_runs(tmp_path: Path) -> None:
    alone = replace(USERS, stages=(replace(USERS.stages[0], group=None),))
    with fake_run(tmp_path, Plain(STAYS), pipeline=alone) as run:
        assert ready(run).status.ready


def test_the_last_words_of_one_that_has_just_ended_are_not_missed(tmp_path: Path) -> None:
    with fake_run(tmp_path, Plain("echo no broker; exit 7"), pipeline=USERS) as run:
        for n in range(40):
            member = started(run, f"s-{n}")
            member.child.wait(10)
            assert member.last_output() == "no broker"


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ("up", "s-1.0 has printed no line that matches 'up'"),
        (None, "s-1.0 is not ready, because its group g has 0 members"),
    ],
)
def test_one_that_never_is_ready_is_given_up_in_its_own_time(
    line: str | None, lacks: str, tmp_path: Path
) -> None:
    program = Plain(STAYS, ProgramRules(line, ready_within_s=0.3))
    words = rf"waited 0\.3 s for all workers .* last seen: {re.escape(lacks)}"
    with fake_run(tmp_path, program, pipeline=USERS) as run, pytest.raises(WaitTimeout, match=words):
        ready(run)


@pytest.mark.parametrize(
    ("body", "words"),
    [("echo hello; echo no broker >&2; exit 7", "no broker"), ("exit 7", "it printed nothing")],
)
def test_one_that_exits_at_once_is_named_with_its_last_words(body: str, words: str, tmp_path: Path) -> None:
    told = rf"s-1\.0 ended while it started: {words}"
    with fake_run(tmp_path, Plain(body), pipeline=USERS) as run, pytest.raises(StartFailed, match=told):
        ready(run)


def test_one_that_keeps_exiting_is_started_again_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "MOST_EXITS", 3)
    with fake_run(tmp_path, Plain("echo no broker; exit 7"), pipeline=USERS) as run:
        started(run, "s-10")  # whose exits are its own
        started(run)
        for _ in range(2):
            ended(run.processes.members[-1])
            ended(run.processes.members[-2])
            run.processes.replace_dead()
        ended(run.processes.members[-1])
        ended(run.processes.members[-2])
        for _ in range(2):  # it stays given up, and each exit is told once
            with pytest.raises(
                PipelineFailed,
                match=r"s-1.? exited 3 times; process \d+ ended with status 7, and .*: no broker$",
            ):
                run.processes.replace_dead()
        subjects = [why.subject for why in run.processes.unexpected_ends]
        assert sorted(subjects) == sorted({*subjects})
        assert {"s-1.0", "s-1.1", "s-10.0", "s-10.1"} < {*subjects}


def test_one_that_is_stopped_is_given_its_own_signal_even_if_it_was_paused(tmp_path: Path) -> None:
    body = "trap 'echo bye; exit 3' USR1; echo started in 1 ms; while :; do sleep 0.05; done"
    program = Plain(body, replace(BY_LINE, stop_signal="SIGUSR1"))
    with fake_run(tmp_path, program, pipeline=USERS) as run:
        member = ready(run)
        member.child.pause()
        assert run.processes.stop([member]) == []
        assert (member.child.poll(), member.last_output()) == (3, "bye")
        run.processes.replace_dead()
        assert run.processes.unexpected_ends == []


def test_one_that_ignores_its_signal_is_killed_and_is_a_warning(tmp_path: Path) -> None:
    body = "trap '' TERM; echo started in 1 ms; while :; do sleep 600; done"
    with fake_run(tmp_path, Plain(body, replace(BY_LINE, stop_within_s=0.3)), pipeline=USERS) as run:
        member = ready(run)
        quiesce(USERS, run.context, FakeEnds(), run.run_log, SOON)
        assert member.child.ending().endswith("ended by SIGKILL")
        assert run.run_log.evidence_problems == []
        (warning,) = run.run_log.unexpected_errors
    assert (warning.code, warning.subject) == ("did-not-stop", "s-1.0")
    assert warning.text == "s-1.0 did not end within 0.3 s after SIGTERM, and was killed"


def test_a_log_keeps_its_first_part_and_its_last_words(tmp_path: Path) -> None:
    body = f"echo started in 1 ms; yes filler | head -c 4900000; echo and this was all; {STAYS}"
    with fake_run(tmp_path, Plain(body, BY_LINE), pipeline=USERS) as run:
        member = ready(run)
        wait_for(lambda: member.last_output() == "and this was all", "all of it", 20)
        assert member.has_printed("^started in 1 ms$")
        sizes = [file.stat().st_size for file in (tmp_path / "workers").glob("s-1.0.log*")]
    assert len(sizes) == 3 and sum(sizes) < 3 * 600_000


@dataclass
class FollowingSilent(Silent):
    """Makes a file when the faults begin."""

    at_faults: Path

    def __post_init__(self) -> None:
        super().__init__()

    def phase(self, name: str) -> None:
        super().phase(name)
        if name == "faults":
            self.at_faults.touch()


def performed(folder: Path, program: Plain) -> tuple[Sequence[Reason], Sequence[str]]:
    """The evidence problems of a whole run, and its phases."""
    (folder / "journals").mkdir()
    progress = FollowingSilent(folder / "faults-began")
    log = RunLog(progress, RunClock(time.monotonic_ns(), time.time() * 1000))
    options, endpoints = Options(time_limit_s=600, rate=10), ("w0", "w1", "w2")
    test = Planned(
        options, folder, USERS, {"s": ("s-1",)}, endpoints, (), {}, {"s": program}, program, timeouts=SOON
    )
    with Supervisor() as supervisor:
        running: Any = RunResources(FakeCluster(), supervisor, Interrupt(), FakeEnds())
        begun: list[bool] = []
        quiet = perform(test, running, log, Preparation(lambda: begun.append(True), 0.0))
    assert begun == [True]  # whatever came of it, it will be judged
    assert quiet.leaders.keys() == set(USERS.topic_partitions)  # it was brought to rest, and looked at
    return log.evidence_problems, progress.said


def test_a_pipeline_that_does_not_come_up_is_a_problem_and_nothing_is_struck(tmp_path: Path) -> None:
    (problem,), phases = performed(tmp_path, Plain("echo no broker; exit 7", BY_LINE))
    assert (problem.code, problem.subject) == ("never-came-up", "s-1.0")
    assert problem.text == "the pipeline did not start: s-1.0 ended while it started: no broker"
    assert "workers/" in problem.remedy and "faults" not in phases


def test_a_pipeline_that_is_never_ready_is_told_with_what_it_said_last(tmp_path: Path) -> None:
    program = Plain(f"echo waiting for a schema; {STAYS}", replace(BY_LINE, ready_within_s=0.5))
    (problem,), phases = performed(tmp_path, program)
    assert problem.code == "never-came-up" and "faults" not in phases
    assert problem.text.endswith("the last output of s-1.0: waiting for a schema")


def test_a_pipeline_that_keeps_exiting_ends_the_run_and_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "MOST_EXITS", 2)
    ends = (
        f"echo started in 1 ms; until [ -e {tmp_path}/faults-began ]; do sleep 0.02; done; echo oops; exit 7"
    )
    problems, phases = performed(tmp_path, Plain(ends, BY_LINE))
    assert [problem.code for problem in problems] == ["pipeline-failed", "not-drained"]
    assert "s-1 exited 2 times" in problems[0].text and "faults" in phases
    assert problems[0].text.endswith("its last output was: oops")
