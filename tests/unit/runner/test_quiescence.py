"""The end of a run. A step that fails is an evidence problem with its own reason, and the other steps are made."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.model.pipeline import StageSpec, TopicPartition
from harness.model.vocabulary import Role
from harness.processes.messages import Command
from harness.processes.specs import ObserverSpec
from harness.results.reasons import by_cause
from harness.runner.final_state import DrainTimeouts, FinalState, quiesce
from harness.testing.fake_cluster import FakeCluster
from harness.testing.fake_network import FakeNetwork
from tests.support.fake_run import (
    EXITS_AT_START,
    EXITS_WHEN_READY,
    IDLE,
    NEVER_COMMITS,
    PIPELINE,
    READS,
    WORKS,
    FakeEndMarkers,
    FakeRun,
    RecordedProgress,
    Script,
    fake_run,
)

pytestmark = pytest.mark.processes

SOON = DrainTimeouts(in_sync_s=0.2, drain_s=0.4, clean_up_s=0.2, reads_s=3.0, every_s=0.01)


def quiesce_and_list_problems(
    run: FakeRun, ends: FakeEndMarkers | None = None
) -> tuple[FinalState, list[str]]:
    final_state = quiesce(PIPELINE, run.context, ends or FakeEndMarkers(), run.run_log, SOON)
    return final_state, [problem.code for problem in run.run_log.evidence_problems]


def test_a_run_that_quiesces_has_no_problems(tmp_path: Path) -> None:
    ends = FakeEndMarkers()
    with fake_run(tmp_path) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        final_state, problems = quiesce_and_list_problems(run, ends)
        assert problems == []
        assert not list(run.processes.alive_in_roles(*Role))
    assert ends.marked == PIPELINE.topic_partitions
    assert final_state.leaders.items() >= {("in", 0): 1, ("out", 0): 1}.items()


def test_workers_have_ended_before_the_ends_are_read_and_readers_run_when_marked(
    tmp_path: Path,
) -> None:
    alive: dict[str, set[Role]] = {}

    def note_roles(when: str) -> None:
        alive[when] = {member.role for member in run.processes.all_processes if member.alive}

    class RecordingEnds(FakeEndMarkers):
        def resolve_ends(self, topic_partitions: object) -> None:
            note_roles("settled")

        def mark_ends(self, topic_partitions: object) -> None:
            note_roles("marked")
            for reader in run.processes.alive_in_roles(Role.FINAL):
                reader.send(Command(go=True))

    reads = READS + "\nfor command in commands:\n    break"
    with fake_run(tmp_path, Script(others={Role.FINAL: reads})) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        run.processes.start_harness_process("observer-1", "harness-clients", ObserverSpec(()))
        quiesce(PIPELINE, run.context, RecordingEnds(), run.run_log, SOON)
    assert alive == {"settled": set(), "marked": {Role.FINAL}}


@pytest.mark.parametrize(
    ("cluster", "code"),
    [
        (FakeCluster(network=FakeNetwork(heal_fails=True)), "not-healed"),
        (FakeCluster(stays_out_of_sync=True), "not-in-sync"),
    ],
)
def test_a_cluster_that_does_not_heal_is_a_problem(tmp_path: Path, cluster: FakeCluster, code: str) -> None:
    with fake_run(tmp_path, cluster=cluster) as run:
        assert code in quiesce_and_list_problems(run)[1]


def test_a_broker_that_dies_after_the_heal_is_a_problem(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:

        class DiesMeanwhile(FakeEndMarkers):
            def mark_ends(self, topic_partitions: object) -> None:
                run.cluster.brokers[0].kill()

        assert quiesce_and_list_problems(run, DiesMeanwhile())[1] == ["not-in-sync-at-the-end"]


def test_inputs_that_are_not_processed_are_a_problem(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        assert quiesce_and_list_problems(run, FakeEndMarkers([7]))[1] == ["not-drained", "inputs-left"]
        (of_stage,) = [consequences for _, consequences in by_cause(run.run_log.evidence_problems)]
        assert [reason.code for reason in of_stage] == ["inputs-left"]


class LeavesUnread(FakeEndMarkers):
    """Seven inputs are left, and the group has read nothing of one partition of `in`."""

    def __init__(self, partition: int) -> None:
        super().__init__([7])
        self._partition = partition

    def unread(self, stage: StageSpec) -> list[TopicPartition]:
        return [("in", self._partition)]


def test_a_group_that_never_reads_an_added_partition_has_passed_it_over(tmp_path: Path) -> None:
    cluster = FakeCluster(ends={("in", 0): (0, 5, 5), ("in", 1): (0, 7, 7)})
    quick = replace(PIPELINE, stages=(replace(PIPELINE.stages[0], metadata_max_age_s=0.1),))
    with fake_run(tmp_path, cluster=cluster) as run:
        quiesce(quick, run.context, LeavesUnread(1), run.run_log, SOON)
        assert run.run_log.passed_over == {"g": ["in/1"]}


@pytest.mark.parametrize("assigned", [frozenset({("in", 1)}), None])
def test_a_group_that_has_the_added_partition_may_be_stuck_there(
    assigned: frozenset[TopicPartition] | None, tmp_path: Path
) -> None:
    cluster = FakeCluster(ends={("in", 0): (0, 5, 5), ("in", 1): (0, 7, 7)}, assignments={"g": assigned})
    quick = replace(PIPELINE, stages=(replace(PIPELINE.stages[0], metadata_max_age_s=0.1),))
    with fake_run(tmp_path, cluster=cluster) as run:
        quiesce(quick, run.context, LeavesUnread(1), run.run_log, SOON)
        assert run.run_log.passed_over == {}


def test_a_partition_of_the_plan_that_is_not_read_was_not_passed_over(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        quiesce_and_list_problems(run, LeavesUnread(0))
        assert run.run_log.passed_over == {}


def test_a_drain_ends_at_once_when_a_proxy_has_ended(tmp_path: Path) -> None:
    network = FakeNetwork(problem="toxiproxy, process 7 ended by SIGKILL")
    with fake_run(tmp_path, cluster=FakeCluster(network=network)) as run:
        quiesce_and_list_problems(run, FakeEndMarkers([7] * 1_000))
        (problem,) = [each for each in run.run_log.evidence_problems if each.code == "not-drained"]
    assert "toxiproxy, process 7 ended by SIGKILL" in problem.text and "waited" not in problem.text


def test_a_drain_continues_while_inputs_are_processed(tmp_path: Path) -> None:
    # One call in ten milliseconds: the drain lasts longer than `drain_s`, but it always makes progress.
    counts: list[int | None] = list(range(100, -1, -1))
    with fake_run(tmp_path) as run:
        assert quiesce_and_list_problems(run, FakeEndMarkers(counts))[1] == []


def test_workers_that_only_fence_each_other_make_no_progress(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(NEVER_COMMITS)) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        assert quiesce_and_list_problems(run, FakeEndMarkers([None, 7] * 1_000))[1] == [
            "not-drained",
            "inputs-left",
        ]


def test_an_unknown_number_of_inputs_does_not_end_the_drain(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        assert quiesce_and_list_problems(run, FakeEndMarkers([None, 3, None, 0]))[1] == []


def test_a_drain_says_what_it_waits_for_and_what_was_answered(tmp_path: Path) -> None:
    class Unseen(FakeEndMarkers):
        def last_seen(self, stage: StageSpec) -> str:
            return "the cluster was asked for the committed offsets of g, and answered: error 3"

    with fake_run(tmp_path) as run:
        quiesce_and_list_problems(run, Unseen([None]))
        lines = [line for line in progress_lines(run) if line.startswith("waiting")]
    assert re.fullmatch(
        "waiting [0-9.]+ s more at most for g to commit all of in: an unknown number of inputs left; the cluster was "
        "asked for the committed offsets of g, and answered: error 3",
        lines[0],
    )
    assert any("for s to show how many inputs are left" in line for line in lines)


def test_a_drain_that_goes_on_says_nothing(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        quiesce_and_list_problems(run, FakeEndMarkers([2, 1, 0]))
        assert not [line for line in progress_lines(run) if line.startswith("waiting")]


def progress_lines(run: FakeRun) -> list[str]:
    assert isinstance(run.run_log.progress, RecordedProgress)
    return run.run_log.progress.lines


def test_a_transaction_that_remains_open_is_a_problem(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        assert quiesce_and_list_problems(run, FakeEndMarkers(open_transactions_listed=["out/0 at 7"]))[1] == [
            "transaction-open"
        ]


@pytest.mark.parametrize("final", [EXITS_AT_START, EXITS_WHEN_READY, IDLE])
def test_readers_that_die_or_do_not_reach_the_end_are_a_problem(tmp_path: Path, final: str) -> None:
    with fake_run(tmp_path, Script(others={Role.FINAL: final})) as run:
        assert quiesce_and_list_problems(run)[1] == ["reader-short"]


def test_a_worker_that_did_not_read_to_its_ends_is_a_problem(tmp_path: Path) -> None:
    unread = WORKS.replace("        break", "        report(unread=2)\n        break", 1)
    with fake_run(tmp_path, Script(unread)) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        assert quiesce_and_list_problems(run)[1] == ["reader-short"]
    (problem,) = run.run_log.evidence_problems
    assert problem.text == "s-1.0 did not read 2 partitions to their ends"
