"""Workers join and leave in good order: planned by the seed, carried out beside faults, and read off their journals."""

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

from harness.common.errors import UnreadableInput
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import WorkerStep
from harness.processes.control_line import Command
from harness.record.events import Assigned, JournalBegan
from harness.record.journal import Journal
from harness.results.membership_changes import MembershipChange
from harness.runner import churn
from harness.runner.churn import (
    MOST_EXTRA_WORKERS,
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


def drawn(
    seed: int, every_s: float = 3.0, limit_s: float = 60.0, struck: tuple[str, ...] = ()
) -> tuple[PlannedChange, ...]:
    return churn.draw(Random(seed), every_s, limit_s, STAGES, struck)


@given(st.integers(0, 1000), st.sets(st.sampled_from(["a-1", "a-2", "a-3", "b-1"])))
def test_turns_keep_to_who_is_there_and_leave_alone_whom_a_fault_strikes(seed: int, struck: set[str]) -> None:
    present = {stage: set(named) for stage, named in STAGES.items()}
    turns = drawn(seed, struck=tuple(struck))
    for turn in turns:
        here = present[turn.stage]
        assert turn.joins or turn.leaves
        assert turn.leaves is None or (turn.leaves in here and turn.leaves not in struck)
        assert turn.joins is None or turn.joins not in here
        here -= {turn.leaves or ""}
        here |= {turn.joins} if turn.joins else set()
        assert 1 <= len(here) <= len(STAGES[turn.stage]) + MOST_EXTRA_WORKERS
    named = [turn.joins for turn in turns if turn.joins]
    assert len(named) == len(set(named)) and not set(named) & {*STAGES["a"], *STAGES["b"]}


def test_the_same_seed_draws_the_same_turns_within_the_time() -> None:
    assert drawn(5) == drawn(5) != drawn(6)
    assert all(3.0 <= turn.start_s <= 56.0 for turn in drawn(5))
    assert 15 <= len(drawn(5)) <= 24  # one every three seconds
    assert drawn(5, limit_s=5.0) == ()


def test_turns_are_read_back_from_test_toml() -> None:
    turns = drawn(5)
    stored = [{key: value for key, value in turn.as_table().items() if value is not None} for turn in turns]
    assert tuple(map(PlannedChange.from_table, stored)) == turns
    with pytest.raises(UnreadableInput, match="a planned change of the churn"):
        PlannedChange.from_table({"start_s": "soon", "stage": "a"})


def test_who_joins_has_a_endpoint_before_who_leaves_has_given_its_own_back() -> None:
    join, swap = PlannedChange(1, "a", joins="a-4"), PlannedChange(2, "a", joins="a-5", leaves="a-1")
    leave = PlannedChange(3, "a", leaves="a-2")
    assert extra_endpoints(()) == 0
    assert extra_endpoints((join, swap)) == 3
    assert extra_endpoints((leave, leave, join, swap)) == 1
    assert joining_workers((join, swap, leave)) == {"a": ("a-4", "a-5")}


def test_who_joins_has_a_transactional_id_of_its_own() -> None:
    stage = StageSpec("a", ("in",), workers=("a-1",), transactional_ids={"a-1": "tag-a-1"})
    assert stage.with_workers(["a-2"], shared=False).transactional_ids == {"a-1": "tag-a-1", "a-2": "tag-a-2"}
    assert stage.with_workers(["a-2"], shared=True).transactional_ids["a-2"] == "tag-a-1"
    pinned = replace(stage, transactional_ids={"in-0": "in-0"}).with_workers(["a-2"], shared=False)
    assert pinned.transactional_ids == {"in-0": "in-0"} and pinned.workers == ("a-1", "a-2")


@contextmanager
def churning(run: FakeRun, *turns: PlannedChange) -> Iterator[Churn]:
    path = run.folder / "journals" / "nemesis.jsonl"
    path.unlink(missing_ok=True)
    with Journal(path, 0, JournalBegan("nemesis", role="nemesis")) as journal:
        one = Churn(turns, run.processes, journal, threading.Lock(), time.monotonic())
        one.start()
        one._thread.join(20)
        yield one
        one.stop()


def test_one_joins_and_one_leaves_and_nobody_takes_the_place_of_who_left(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(IDLE)) as run:
        first = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([first])
        with churning(run, PlannedChange(0.0, "s", joins="s-2", leaves="s-1")) as one:
            (done,) = one.done
        run.processes.replace_dead()
        assert (done.joined, done.left, done.why, one.errors) == ("s-2.0", "s-1.0", "", [])
        assert [member.journal for member in run.processes.workers("s")] == ["s-2.0"]
        assert not first.alive and run.processes.unexpected_ends == []
        lines = (tmp_path / "journals" / "nemesis.jsonl").read_text()
        assert lines.count('"f":"churn"') == 2 and '"joins":"s-2"' in lines


def test_a_worker_that_a_fault_has_in_hand_does_not_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(churn, "FREE_TIMEOUT_S", 0.2)
    with fake_run(tmp_path) as run:
        worker = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([worker])
        run.processes.wait_at_step(worker, WorkerStep.AFTER_SEND, 5)
        with churning(run, PlannedChange(0.0, "s", leaves="s-1")) as one:
            assert "s-1 to be free to leave" in one.done[0].why and one.done[0].left is None
        assert worker.alive
        worker.send(Command(go=True))
        with churning(run, PlannedChange(0.0, "s", leaves="s-1")) as one:
            assert one.done[0].left == "s-1.0" and not one.done[0].why


def test_one_that_does_not_leave_in_good_order_is_told(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(LEAVES_BADLY)) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        with churning(run, PlannedChange(0.0, "s", leaves="s-1")) as one:
            assert "exit status 7" in one.done[0].why


def journal(folder: Path, name: str, *moves: tuple[bool, list[str]], stage: str = "s") -> None:
    (folder / "journals").mkdir(exist_ok=True)
    path = folder / "journals" / f"{name}.jsonl"
    with Journal(path, time.monotonic_ns(), JournalBegan(name, role="worker", stage=stage)) as one:
        for gained, places in moves:
            one.write(Assigned(0, gained, places, [0] * len(places) if gained else None))


def test_what_moved_is_read_off_the_journals_of_the_stage(tmp_path: Path) -> None:
    swap = PlannedChange(0.0, "s", joins="s-2", leaves="s-1")
    (tmp_path / "journals").mkdir()
    zero_ns = time.monotonic_ns()

    def write(name: str, gained: bool, places: list[str], stage: str = "s") -> None:
        path = tmp_path / "journals" / f"{name}.jsonl"
        with Journal(path, zero_ns, JournalBegan(name, role="worker", stage=stage)) as one:
            one.write(Assigned(0, gained, places, [0] * len(places) if gained else None))

    write("s-1.0", True, ["in/0", "in/1"])
    start_s = (time.monotonic_ns() - zero_ns) / 1e9
    write("s-2.0", True, ["in/0"])
    write("t-1.0", True, ["in/1"], "another stage")
    (tmp_path / "journals" / "torn.jsonl").write_text('{"type":')
    done = ChangeReport(swap, start_s, start_s + 1, "s-2.0", "s-1.0")
    (told,) = read_membership_changes(tmp_path, [done])
    assert (told.to, told.away, told.partitions) == (("in/0",), ("in/0",), ["in/0"])
    assert MembershipChange.from_json(told.as_json()) == told


def test_where_nothing_moved_nothing_is_told(tmp_path: Path) -> None:
    journal(tmp_path, "s-1.0", (True, ["in/0"]))
    journal(tmp_path, "s-2.0")
    (told,) = read_membership_changes(
        tmp_path, [ChangeReport(PlannedChange(0.0, "s", joins="s-2"), 1e9, 1e9, "s-2.0")]
    )
    assert told.partitions == []
