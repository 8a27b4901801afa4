"""Faults on instances of a custom pipeline that are aimed at a state of the instance's transaction."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster import TransactionView
from harness.common.errors import FaultFailed, WaitTimeout
from harness.network import Cut, peer_link
from harness.protocol.observed_clients import ObservedClients
from nemeses.aiming.in_transaction import GOAL as STATE
from nemeses.effects import instance_states
from tests.support.fake_run import CUSTOM_PIPELINE, fake_run
from tests.support.instances import (
    COMPLETED,
    FAULTS,
    ONGOING,
    ONGOING_WITH_OFFSETS,
    PARTITIONS,
    RUNS_FOREVER,
    WritingCluster,
    inject,
    journal_names,
    run_instance,
)

pytestmark = pytest.mark.processes

WITHOUT_IDS = replace(CUSTOM_PIPELINE, stages=(replace(CUSTOM_PIPELINE.stages[0], transactional_ids={}),))
DECIDED, ABORTS = (
    TransactionView("PrepareCommit", 7, 0, PARTITIONS),
    TransactionView("PrepareAbort", 7, 0, PARTITIONS),
)


@pytest.mark.parametrize(
    ("state", "looks"),
    [
        (
            "ongoing",
            [COMPLETED, ONGOING, COMPLETED, ONGOING, ONGOING],
        ),  # at the first try the transaction ended before the instance was stopped
        (
            "offsets-added",
            [ONGOING, ONGOING_WITH_OFFSETS, ONGOING, ONGOING_WITH_OFFSETS, ONGOING_WITH_OFFSETS],
        ),
    ],
)
def test_an_instance_is_killed_in_the_state_in_which_it_was_stopped(
    state: str, looks: list[TransactionView], tmp_path: Path
) -> None:
    last = looks[-1]
    with run_instance(tmp_path, WritingCluster(transactions={"s-1": looks})) as (run, member):
        effect = inject(run, "kill-instance", state)
        assert effect.acted and looks == [last]
        topics = ", ".join(sorted(topic for topic, _ in last.partitions))
        assert effect.proof[0] == f"s-1.0 was stopped while s-1 was Ongoing with {topics}"
        assert effect.details == {"worker": "s-1.0", "state": state, "transactional_id": "s-1"}
        assert not member.alive


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_prefers_an_open_transaction_is_injected_in_it(fault: str, tmp_path: Path) -> None:
    cluster = WritingCluster(
        transactions={"s-1": [COMPLETED, ONGOING, ONGOING]}, groups={"g": [("a",), ("a",), ("b",)]}
    )
    with run_instance(tmp_path, cluster) as (run, _):
        effect = inject(run, fault, prefers="ongoing")
        assert effect.acted and effect.injected_ns is not None
        assert "s-1.0 was stopped while s-1 was Ongoing with out" in effect.proof
        assert effect.details == {"worker": "s-1.0", "transactional_id": "s-1"}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("looks", [[COMPLETED], []])
def test_a_fault_is_injected_even_if_the_preferred_state_does_not_come(
    fault: str, looks: list[TransactionView], tmp_path: Path
) -> None:
    cluster = WritingCluster(transactions={"s-1": looks}, groups={"g": [("a",), ("a",), ("b",)]})
    with run_instance(tmp_path, cluster) as (run, _):
        effect = inject(run, fault, prefers="ongoing")
        assert effect.acted and effect.unmet_goals == {}
        assert effect.details == {"worker": "s-1.0"}


def cluster_with(*looks: TransactionView, leader: int = 2) -> WritingCluster:
    """A cluster on which broker 1 coordinates the instance's id, and `leader` leads the partition that it writes."""
    cluster = WritingCluster(transactions={"s-1": list(looks)}, groups={"g": [("a",), ("a",), ("b",)]})
    cluster._leader["out/0"] = leader
    return cluster


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "before",
    [
        (),
        (ONGOING, ONGOING, ABORTS),  # the first transaction aborts
        (
            ONGOING,
            ONGOING,
            DECIDED,
            DECIDED,
            COMPLETED,
            COMPLETED,
        ),  # the transaction was complete before the instance was stopped
    ],
)
def test_a_fault_is_injected_while_the_markers_are_held_back(
    fault: str, before: tuple[TransactionView, ...], tmp_path: Path
) -> None:
    cluster = cluster_with(*before, ONGOING, ONGOING, ONGOING, DECIDED, DECIDED, DECIDED)
    with run_instance(tmp_path, cluster) as (run, member):
        effect = inject(run, fault, "prepare-commit")
        assert effect.acted and effect.unmet_goals == {} and effect.details["state"] == "prepare-commit"
        assert effect.proof[0] == (
            "s-1.0 was stopped while s-1 was PrepareCommit with out: broker 1 said that s-1 was in PrepareCommit, "
            "with no marker yet in out/0"
        )
        assert set(cluster.network.imposed) == {(peer_link(1, 2, "int"), Cut())}
        assert cluster.network.affected == [] and member.alive == (fault == "pause-instance")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("make_cluster", "why"),
    [
        (lambda: cluster_with(ONGOING), "to be in PrepareCommit"),
        (lambda: cluster_with(ONGOING, ONGOING, DECIDED, COMPLETED), "to be in PrepareCommit"),
        (
            lambda: cluster_with(ONGOING, ONGOING, TransactionView("PrepareCommit", 7, 0, ())),
            "to be in PrepareCommit",
        ),
        (lambda: cluster_with(ONGOING, leader=1), "whose markers can be held back"),
    ],
)
def test_an_instance_that_is_not_seen_in_prepare_commit_keeps_running(
    fault: str,
    make_cluster: Callable[[], WritingCluster],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instance_states, "TRIES", 1)
    cluster = make_cluster()
    with run_instance(tmp_path, cluster, time_scale=0.002) as (run, member):
        effect = inject(run, fault, "prepare-commit")
        assert not effect.acted and why in effect.unmet_goals[STATE] and effect.injected_ns is None
        assert member.child.running and cluster.network.affected == [] and journal_names(run) == ["s-1.0"]


def test_an_instance_keeps_running_if_its_markers_cannot_be_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_with(ONGOING)

    def refuse(*_: object) -> None:
        raise FaultFailed("the links could not be cut")

    monkeypatch.setattr(cluster.network, "impose", refuse)
    with run_instance(tmp_path, cluster) as (run, member):
        with pytest.raises(FaultFailed):
            inject(run, "kill-instance", "prepare-commit")
        assert member.child.running


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("state", "looks"),
    [
        ("ongoing", [COMPLETED]),
        ("ongoing", [ONGOING, COMPLETED]),
        ("offsets-added", [ONGOING]),
        ("ongoing", []),
    ],
)
def test_an_instance_that_does_not_reach_the_state_keeps_running(
    fault: str, state: str, looks: list[TransactionView], tmp_path: Path
) -> None:
    cluster = WritingCluster(transactions={"s-1": looks}, groups={"g": [("a",)]})
    with run_instance(tmp_path, cluster, time_scale=0.002) as (run, member):
        effect = inject(run, fault, state)
        assert not effect.acted and f"in a transaction of s-1 that is {state}" in effect.unmet_goals[STATE]
        assert effect.injected_ns is None and member.child.running and journal_names(run) == ["s-1.0"]


def test_an_instance_keeps_running_if_the_coordinator_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_instance(tmp_path, WritingCluster()) as (run, member):

        def describe(transactional_id: str) -> TransactionView:
            if member.child.paused:
                raise WaitTimeout("the controller's view", 15.0, "nothing")
            return ONGOING

        monkeypatch.setattr(run.cluster, "describe_transaction", describe)
        effect = inject(run, "kill-instance", "ongoing")
        assert not effect.acted and "the controller's view" in effect.unmet_goals[STATE]
        assert member.child.running


def test_an_instance_whose_transactional_id_is_not_known_keeps_running(tmp_path: Path) -> None:
    with fake_run(tmp_path, RUNS_FOREVER, WritingCluster(), pipeline=WITHOUT_IDS) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        effect = inject(run, "kill-instance", "ongoing")
        (reason,) = effect.unmet_goals.values()
        assert reason.startswith("s-1.0 sent no request with a transactional id for ")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_says_if_no_protocol_proxy_is_on_the_links(fault: str, tmp_path: Path) -> None:
    cluster = WritingCluster(groups={"g": [("a",)]})
    cluster.network.decoded = False
    with fake_run(tmp_path, RUNS_FOREVER, cluster, pipeline=WITHOUT_IDS, time_scale=0.002) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        effect = inject(run, fault, "ongoing")
        assert not effect.acted and effect.unmet_goals[STATE] == (
            "the transactional id of s-1.0 is not known, because no protocol proxy is on its links: name the id in "
            "its [[stage]], or set transactions = false there if it has none"
        )


def test_an_unnamed_transactional_id_is_the_one_that_the_instance_used_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {"id-of-another": 2_000, "s-1": 1_000}
    looks = [before, before, before, before | {"s-1": 3_000, "thread-2": 2_999}]
    cluster = WritingCluster(
        transactions={"s-1": [ONGOING], "thread-2": [ONGOING], "id-of-another": [ONGOING]}
    )
    monkeypatch.setattr(
        cluster.network,
        "observed_clients",
        lambda links: ObservedClients(transactional_ids=looks.pop(0) if len(looks) > 1 else looks[0]),
    )
    with fake_run(tmp_path, RUNS_FOREVER, cluster, pipeline=WITHOUT_IDS) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        effect = inject(run, "kill-instance", "ongoing")
        assert effect.acted and effect.details["transactional_id"] == "s-1"
