"""Churn: workers join and leave cleanly. The changes are drawn from a seed, made, and read from the journals."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.common.documents import decode, encode
from harness.common.errors import UnreadableInput
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import WorkerStep
from harness.processes.messages import Command
from harness.record.events import Assigned, JournalBegan
from harness.record.journal import Journal
from harness.results.verdict import MembershipChange
from harness.runner import churn
from harness.runner.churn import (
    MAX_EXTRA_WORKERS,
    ChangeReport,
    Churn,
    PlannedChange,
    extra_endpoints,
    joining_workers,
    read_membership_changes,
)
from tests.support.fake_run import IDLE, FakeRun, Script, fake_run

STAGES = {"a": ("a-1", "a-2", "a-3"), "b": ("b-1",)}
LEAVES_BADLY = 'report(ready=True)\nnext(command for command in commands if command.get("stop"))\nsys.exit(7)'


def draw_changes(
    seed: int, every_s: float = 3.0, limit_s: float = 60.0, reserved: tuple[str, ...] = ()
) -> tuple[PlannedChange, ...]:
    return churn.draw(Random(seed), every_s, limit_s, STAGES, reserved)


@given(st.integers(0, 1000), st.sets(st.sampled_from(["a-1", "a-2", "a-3", "b-1"])))
def test_only_present_workers_leave_and_never_the_target_of_a_fault(seed: int, reserved: set[str]) -> None:
    present = {stage: set(names) for stage, names in STAGES.items()}
    changes = draw_changes(seed, reserved=tuple(reserved))
    for change in changes:
        workers = present[change.stage]
        assert change.joins or change.leaves
        assert change.leaves is None or (change.leaves in workers and change.leaves not in reserved)
        assert change.joins is None or change.joins not in workers
        workers -= {change.leaves or ""}
        workers |= {change.joins} if change.joins else set()
        assert 1 <= len(workers) <= len(STAGES[change.stage]) + MAX_EXTRA_WORKERS
    names = [change.joins for change in changes if change.joins]
    assert len(names) == len(set(names)) and not set(names) & {*STAGES["a"], *STAGES["b"]}


def test_the_same_seed_draws_the_same_changes_within_the_time_limit() -> None:
    assert draw_changes(5) == draw_changes(5) != draw_changes(6)
    assert all(3.0 <= change.start_s <= 56.0 for change in draw_changes(5))
    assert 15 <= len(draw_changes(5)) <= 24  # one every three seconds
    assert draw_changes(5, limit_s=5.0) == ()


def test_changes_survive_the_round_trip_through_tables() -> None:
    changes = draw_changes(5)
    stored = [
        {key: value for key, value in change.as_table().items() if value is not None} for change in changes
    ]
    assert tuple(map(PlannedChange.from_table, stored)) == changes
    with pytest.raises(UnreadableInput, match="a planned change of the churn"):
        PlannedChange.from_table({"start_s": "soon", "stage": "a"})


def test_a_swap_needs_an_endpoint_more_because_the_worker_joins_first() -> None:
    join, swap = PlannedChange(1, "a", joins="a-4"), PlannedChange(2, "a", joins="a-5", leaves="a-1")
    leave = PlannedChange(3, "a", leaves="a-2")
    assert extra_endpoints(()) == 0
    assert extra_endpoints((join, swap)) == 3
    assert extra_endpoints((leave, leave, join, swap)) == 1
    assert joining_workers((join, swap, leave)) == {"a": ("a-4", "a-5")}


def test_a_joining_worker_has_its_own_transactional_id() -> None:
    stage = StageSpec("a", ("in",), workers=("a-1",), transactional_ids={"a-1": "tag-a-1"})
    assert stage.with_workers(["a-2"], shared=False).transactional_ids == {"a-1": "tag-a-1", "a-2": "tag-a-2"}
    assert stage.with_workers(["a-2"], shared=True).transactional_ids["a-2"] == "tag-a-1"
    pinned = replace(stage, transactional_ids={"in-0": "in-0"}).with_workers(["a-2"], shared=False)
    assert pinned.transactional_ids == {"in-0": "in-0"} and pinned.workers == ("a-1", "a-2")


@contextmanager
def run_churn(run: FakeRun, *changes: PlannedChange) -> Iterator[Churn]:
    path = run.folder / "journals" / "nemesis.jsonl"
    path.unlink(missing_ok=True)
    with Journal(path, 0, JournalBegan("nemesis", role="nemesis")) as journal:
        churn_thread = Churn(changes, run.processes, journal, threading.Lock(), time.monotonic())
        churn_thread.start()
        churn_thread._thread.join(20)
        yield churn_thread
        churn_thread.stop()


@pytest.mark.processes
def test_a_worker_joins_and_another_leaves_and_is_not_replaced(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(IDLE)) as run:
        first = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([first])
        with run_churn(run, PlannedChange(0.0, "s", joins="s-2", leaves="s-1")) as running:
            (done,) = running.reports
        run.processes.replace_dead()
        assert (done.joined, done.left, done.why, running.errors) == ("s-2.0", "s-1.0", "", [])
        assert [member.journal for member in run.processes.workers("s")] == ["s-2.0"]
        assert not first.alive and run.processes.unexpected_ends == []
        lines = (tmp_path / "journals" / "nemesis.jsonl").read_text()
        assert lines.count('"f":"churn"') == 2 and '"joins":"s-2"' in lines


@pytest.mark.processes
def test_a_worker_that_a_fault_has_stopped_does_not_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(churn, "FREE_TIMEOUT_S", 0.2)
    with fake_run(tmp_path) as run:
        worker = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([worker])
        run.processes.hold_at_step(worker, WorkerStep.AFTER_SEND, 5)
        with run_churn(run, PlannedChange(0.0, "s", leaves="s-1")) as running:
            assert "s-1 to be free to leave" in running.reports[0].why and running.reports[0].left is None
        assert worker.alive
        worker.send(Command(go=True))
        with run_churn(run, PlannedChange(0.0, "s", leaves="s-1")) as running:
            assert running.reports[0].left == "s-1.0" and not running.reports[0].why


@pytest.mark.processes
def test_a_worker_that_leaves_with_an_error_is_reported(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(LEAVES_BADLY)) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        with run_churn(run, PlannedChange(0.0, "s", leaves="s-1")) as running:
            assert "exit status 7" in running.reports[0].why


def journal(folder: Path, name: str, *moves: tuple[bool, list[str]], stage: str = "s") -> None:
    (folder / "journals").mkdir(exist_ok=True)
    path = folder / "journals" / f"{name}.jsonl"
    with Journal(path, time.monotonic_ns(), JournalBegan(name, role="worker", stage=stage)) as stage_journal:
        for gained, partitions in moves:
            stage_journal.write(Assigned(0, gained, partitions, [0] * len(partitions) if gained else None))


def test_moved_partitions_are_read_from_the_journals_of_the_stage(tmp_path: Path) -> None:
    swap = PlannedChange(0.0, "s", joins="s-2", leaves="s-1")
    (tmp_path / "journals").mkdir()
    zero_ns = time.monotonic_ns()

    def write(name: str, gained: bool, partitions: list[str], stage: str = "s") -> None:
        path = tmp_path / "journals" / f"{name}.jsonl"
        with Journal(path, zero_ns, JournalBegan(name, role="worker", stage=stage)) as stage_journal:
            stage_journal.write(Assigned(0, gained, partitions, [0] * len(partitions) if gained else None))

    write("s-1.0", True, ["in/0", "in/1"])
    start_s = (time.monotonic_ns() - zero_ns) / 1e9
    write("s-2.0", True, ["in/0"])
    write("t-1.0", True, ["in/1"], "another stage")
    (tmp_path / "journals" / "torn.jsonl").write_text('{"type":')
    done = ChangeReport(swap, start_s, start_s + 1, "s-2.0", "s-1.0")
    (moved,) = read_membership_changes(tmp_path, [done])
    assert (moved.to, moved.away, moved.partitions) == (("in/0",), ("in/0",), ["in/0"])
    assert decode(encode(moved), MembershipChange) == moved


def test_a_change_that_moves_nothing_has_no_partitions(tmp_path: Path) -> None:
    journal(tmp_path, "s-1.0", (True, ["in/0"]))
    journal(tmp_path, "s-2.0")
    (moved,) = read_membership_changes(
        tmp_path, [ChangeReport(PlannedChange(0.0, "s", joins="s-2"), 1e9, 1e9, "s-2.0")]
    )
    assert moved.partitions == []
