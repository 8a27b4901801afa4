"""Instances are struck where their coordinator says that their transaction is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster import TransactionView
from harness.common.errors import FaultFailed, WaitTimeout
from harness.network import Cut
from harness.network.links import peer_link
from harness.testing.fake_cluster import FakeCluster
from harness.witness.request_log import ObservedClientIds
from nemeses.aiming.in_transaction import GOAL as STATE
from nemeses.effects import stopped
from tests.support.fake_run import USERS, fake_run
from tests.support.instances import (
    DONE,
    FAULTS,
    ONCE,
    OPEN,
    STAYS,
    WITH_OFFSETS,
    journals,
    running,
    struck,
)

pytestmark = pytest.mark.usefixtures("soon")


NAMELESS = replace(USERS, stages=(replace(USERS.stages[0], transactional_ids={}),))
DECIDED, ABORTS = TransactionView("PrepareCommit", 7, 0, ONCE), TransactionView("PrepareAbort", 7, 0, ONCE)


@pytest.mark.parametrize(
    ("state", "looks"),
    [
        ("ongoing", [DONE, OPEN, DONE, OPEN, OPEN]),  # the second time it had ended before it was stopped
        ("offsets-added", [OPEN, WITH_OFFSETS, OPEN, WITH_OFFSETS, WITH_OFFSETS]),
    ],
)
def test_one_is_killed_in_the_state_in_which_it_was_stopped(
    state: str, looks: list[TransactionView], tmp_path: Path
) -> None:
    last = looks[-1]
    with running(tmp_path, FakeCluster(transactions={"s-1": looks})) as (run, member):
        effect = struck(run, "kill-instance", state)
        assert effect.acted and looks == [last]
        topics = ", ".join(sorted(topic for topic, _ in last.partitions))
        assert effect.proof[0] == f"s-1.0 was stopped while s-1 was Ongoing with {topics}"
        assert effect.details == {"worker": "s-1.0", "state": state, "transactional_id": "s-1"}
        assert not member.alive


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_waits_for_an_open_transaction_is_struck_in_it(fault: str, tmp_path: Path) -> None:
    cluster = FakeCluster(transactions={"s-1": [DONE, OPEN, OPEN]}, groups={"g": [("a",), ("a",), ("b",)]})
    with running(tmp_path, cluster) as (run, _):
        effect = struck(run, fault, prefers=True)
        assert effect.acted and effect.injected_ns is not None
        assert "s-1.0 was stopped while s-1 was Ongoing with out" in effect.proof
        assert effect.details == {"worker": "s-1.0", "transactional_id": "s-1"}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("looks", [[DONE], []])
def test_one_that_waits_in_vain_for_an_open_transaction_is_struck_as_it_is(
    fault: str, looks: list[TransactionView], tmp_path: Path
) -> None:
    cluster = FakeCluster(transactions={"s-1": looks}, groups={"g": [("a",), ("a",), ("b",)]})
    with running(tmp_path, cluster) as (run, _):
        effect = struck(run, fault, prefers=True)
        assert effect.acted and effect.unmet_goals == {}
        assert effect.details == {"worker": "s-1.0"}


def deciding(*looks: TransactionView, leader: int = 2) -> FakeCluster:
    """Broker 1 coordinates the instance's id, and `leader` leads what it writes."""
    cluster = FakeCluster(transactions={"s-1": list(looks)}, groups={"g": [("a",), ("a",), ("b",)]})
    cluster._leader["out/0"] = leader
    return cluster


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "before",
    [
        (),
        (OPEN, OPEN, ABORTS),  # the first one aborts
        (OPEN, OPEN, DECIDED, DECIDED, DONE, DONE),  # it was complete before the instance stood still
    ],
)
def test_one_is_struck_while_its_markers_are_held_back(
    fault: str, before: tuple[TransactionView, ...], tmp_path: Path
) -> None:
    cluster = deciding(*before, OPEN, OPEN, OPEN, DECIDED, DECIDED, DECIDED)
    with running(tmp_path, cluster) as (run, member):
        effect = struck(run, fault, "prepare-commit")
        assert effect.acted and effect.unmet_goals == {} and effect.details["state"] == "prepare-commit"
        assert effect.proof[0] == (
            "s-1.0 was stopped while s-1 was PrepareCommit with out: broker 1 said that s-1 was in PrepareCommit, "
            "with no marker yet in out/0"
        )
        assert set(cluster.network.imposed) == {(peer_link(1, 2, "int"), Cut())}
        assert cluster.network.affected == [] and member.alive == (fault == "pause-instance")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (lambda: deciding(OPEN), "to be in PrepareCommit"),
        (lambda: deciding(OPEN, OPEN, DECIDED, DONE), "to be in PrepareCommit"),
        (lambda: deciding(OPEN, OPEN, TransactionView("PrepareCommit", 7, 0, ())), "to be in PrepareCommit"),
        (lambda: deciding(OPEN, leader=1), "whose markers can be held back"),
    ],
)
def test_one_that_is_not_seen_in_prepare_commit_goes_on(
    fault: str, cluster: Callable[[], FakeCluster], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopped, "TRIES", 1)
    made = cluster()
    with running(tmp_path, made) as (run, member):
        effect = struck(run, fault, "prepare-commit")
        assert not effect.acted and why in effect.unmet_goals[STATE] and effect.injected_ns is None
        assert member.child.running and made.network.affected == [] and journals(run) == ["s-1.0"]


def test_one_goes_on_where_its_markers_cannot_be_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = deciding(OPEN)

    def refuse(*_: object) -> None:
        raise FaultFailed("the links could not be cut")

    monkeypatch.setattr(cluster.network, "impose", refuse)
    with running(tmp_path, cluster) as (run, member):
        with pytest.raises(FaultFailed):
            struck(run, "kill-instance", "prepare-commit")
        assert member.child.running


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("state", "looks"),
    [("ongoing", [DONE]), ("ongoing", [OPEN, DONE]), ("offsets-added", [OPEN]), ("ongoing", [])],
)
def test_one_that_does_not_come_to_the_state_goes_on(
    fault: str, state: str, looks: list[TransactionView], tmp_path: Path
) -> None:
    cluster = FakeCluster(transactions={"s-1": looks}, groups={"g": [("a",)]})
    with running(tmp_path, cluster) as (run, member):
        effect = struck(run, fault, state)
        assert not effect.acted and f"in a transaction of s-1 that is {state}" in effect.unmet_goals[STATE]
        assert effect.injected_ns is None and member.child.running and journals(run) == ["s-1.0"]


def test_one_goes_on_where_nobody_says_how_its_transaction_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, FakeCluster()) as (run, member):

        def told(own: str) -> TransactionView:
            if member.child.paused:
                raise WaitTimeout("the controller's view", 15.0, "nothing")
            return OPEN

        monkeypatch.setattr(run.cluster, "describe_transaction", told)
        effect = struck(run, "kill-instance", "ongoing")
        assert not effect.acted and "the controller's view" in effect.unmet_goals[STATE]
        assert member.child.running


def test_one_that_speaks_of_no_transactional_id_is_not_caught(tmp_path: Path) -> None:
    with fake_run(tmp_path, STAYS, pipeline=NAMELESS) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        effect = struck(run, "kill-instance", "ongoing")
        (words,) = effect.unmet_goals.values()
        assert words.startswith("s-1.0 sent no request with a transactional id for ")
        assert run.cluster.recording == [True, False]


def test_the_transactional_id_of_one_that_nobody_named_is_the_one_that_it_speaks_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {"of-another": "10:00:02,000", "s-1": "10:00:01,000"}
    looks = [before, before, before | {"s-1": "10:00:03,000", "thread-2": "10:00:02,999"}]
    cluster = FakeCluster(transactions={"s-1": [OPEN], "thread-2": [OPEN], "of-another": [OPEN]})
    monkeypatch.setattr(
        cluster,
        "client_ids",
        lambda endpoint: ObservedClientIds(transactional_ids=looks.pop(0) if len(looks) > 1 else looks[0]),
    )
    with fake_run(tmp_path, STAYS, cluster, pipeline=NAMELESS) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        effect = struck(run, "kill-instance", "ongoing")
        assert effect.acted and effect.details["transactional_id"] == "s-1"
