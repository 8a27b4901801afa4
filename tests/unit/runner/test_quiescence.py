"""What does not come to rest makes the evidence incomplete, each with its reason; the rest is still done."""

from pathlib import Path

import pytest

from harness.model.vocabulary import Role
from harness.processes.control_line import Command
from harness.processes.specs import ObserverSpec
from harness.runner.final_state import DrainTimeouts, FinalState, quiesce
from harness.testing.fake_cluster import FakeCluster
from harness.testing.fake_network import FakeNetwork
from tests.support.fake_run import (
    DIES,
    DIES_LATER,
    IDLE,
    NEVER_COMMITS,
    PIPELINE,
    READS,
    WORKS,
    FakeEnds,
    FakeRun,
    Script,
    fake_run,
)

SOON = DrainTimeouts(in_sync_s=0.2, drain_s=0.4, clean_up_s=0.2, reads_s=3.0, every_s=0.01)


def brought_to_rest(run: FakeRun, ends: FakeEnds | None = None) -> tuple[FinalState, list[str]]:
    quiet = quiesce(PIPELINE, run.context, ends or FakeEnds(), run.run_log, SOON)
    return quiet, [problem.code for problem in run.run_log.evidence_problems]


def test_a_run_that_comes_to_rest_lacks_nothing(tmp_path: Path) -> None:
    ends = FakeEnds()
    with fake_run(tmp_path) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        quiet, problems = brought_to_rest(run, ends)
        assert problems == []
        assert not list(run.processes.alive_in_roles(*Role))
    assert ends.marked == PIPELINE.topic_partitions
    assert quiet.leaders == {("in", 0): 1, ("out", 0): 1}


def test_only_final_readers_write_when_it_is_at_rest_and_they_read_when_the_ends_are_marked(
    tmp_path: Path,
) -> None:
    alive: dict[str, set[Role]] = {}

    def look(when: str) -> None:
        alive[when] = {member.role for member in run.processes.members if member.alive}

    class Looks(FakeEnds):
        def resolve_ends(self, places: object) -> None:
            look("settled")

        def mark_ends(self, places: object) -> None:
            look("marked")
            for reader in run.processes.alive_in_roles(Role.FINAL):
                reader.send(Command(go=True))

    reads = READS + "\nfor command in commands:\n    break"
    with fake_run(tmp_path, Script(others={Role.FINAL: reads})) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        run.processes.start_harness_process("observer-1", "aside", ObserverSpec(()))
        quiesce(PIPELINE, run.context, Looks(), run.run_log, SOON)
    assert alive == {"settled": set(), "marked": {Role.FINAL}}


@pytest.mark.parametrize(
    ("cluster", "code"),
    [
        (FakeCluster(network=FakeNetwork(heal_fails=True)), "not-healed"),
        (FakeCluster(stays_out_of_sync=True), "not-in-sync"),
    ],
)
def test_a_cluster_that_does_not_heal_is_told(tmp_path: Path, cluster: FakeCluster, code: str) -> None:
    with fake_run(tmp_path, cluster=cluster) as run:
        assert code in brought_to_rest(run)[1]


def test_a_broker_that_dies_after_the_heal_is_noticed(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:

        class DiesMeanwhile(FakeEnds):
            def mark_ends(self, places: object) -> None:
                run.cluster.brokers[0].kill()

        assert brought_to_rest(run, DiesMeanwhile())[1] == ["not-in-sync-at-the-end"]


def test_inputs_that_nobody_takes_are_left_behind(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        assert brought_to_rest(run, FakeEnds([7]))[1] == ["not-drained", "inputs-left"]


def test_a_drain_goes_on_as_long_as_inputs_are_taken(tmp_path: Path) -> None:
    # One look-up in ten milliseconds: it takes longer than the patience, and never stands still.
    slow: list[int | None] = list(range(100, -1, -1))
    with fake_run(tmp_path) as run:
        assert brought_to_rest(run, FakeEnds(slow))[1] == []


def test_workers_that_only_fence_each_other_do_not_get_on(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(NEVER_COMMITS)) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        assert brought_to_rest(run, FakeEnds([None, 7] * 1_000))[1] == ["not-drained", "inputs-left"]


def test_a_look_up_that_fails_does_not_end_the_drain(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        assert brought_to_rest(run, FakeEnds([None, 3, None, 0]))[1] == []


def test_a_transaction_that_stays_open_is_told(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        assert brought_to_rest(run, FakeEnds(open_at=["out/0 at 7"]))[1] == ["transaction-open"]


@pytest.mark.parametrize("final", [DIES, DIES_LATER, IDLE])
def test_readers_that_die_or_never_come_to_the_end_are_told(tmp_path: Path, final: str) -> None:
    with fake_run(tmp_path, Script(others={Role.FINAL: final})) as run:
        assert brought_to_rest(run)[1] == ["reader-short"]


def test_a_worker_that_was_to_read_more_before_it_ended_is_told(tmp_path: Path) -> None:
    unread = WORKS.replace("        break", "        report(unread=2)\n        break", 1)
    with fake_run(tmp_path, Script(unread)) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        assert brought_to_rest(run)[1] == ["reader-short"]
    (problem,) = run.run_log.evidence_problems
    assert problem.text == "s-1.0 did not read 2 partitions to their ends"
