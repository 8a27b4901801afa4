"""The roles of brokers after @: how they are drawn, and how a fault on one broker or on several acts and is healed."""

import threading
from collections.abc import Mapping
from contextlib import nullcontext
from random import Random

import pytest

from fencepost.registry import aim, require_known_fault
from harness.cluster import PartitionView
from harness.common.errors import FaultFailed, UsageError
from harness.model.fault_names import requested_name
from harness.model.pipeline import TopicSpec
from harness.runner.nemesis import PlannedFault, Resource, Target
from harness.testing.fake_cluster import FakeBroker, FakeCluster, fault_context
from nemeses.aiming.roles import ROLES, majority, minority, require_numbers
from nemeses.registry import NEMESES
from tests.support.drawn_schedule import draw
from tests.unit.harness.test_schedule import TARGETS

IN_ROLES = ("kill-broker", "restart-broker", "pause-broker")
TARGETS_OF_ROLES = {
    "leader": {"leader:in/0", "leader:out/0", "leader:paid/0"},
    "leader:paid/0": {"leader:paid/0"},
    "follower": {"follower:in/0", "follower:out/0", "follower:paid/0"},
    "follower:in/0": {"follower:in/0"},
    "txn-coordinator": {"txn-coordinator:shop-1", "txn-coordinator:shop-2", "txn-coordinator:payments-1"},
    "txn-coordinator:shop-2": {"txn-coordinator:shop-2"},
    "group-coordinator": {"group-coordinator:g1", "group-coordinator:g2", "group-coordinator:g3"},
    "group-coordinator:g2": {"group-coordinator:g2"},
    "controller": {"controller"},
    "broker": {"broker:1", "broker:2", "broker:3"},
    "2": {"broker:2"},
    "minority": {"minority:1", "minority:2", "minority:3"},
    "majority": {"majority:1,2", "majority:1,3", "majority:2,3"},
    "all": {"all:1,2,3"},
}


def started(**fields: bool) -> FakeCluster:
    """Return a cluster with the topic `in`."""
    cluster = FakeCluster(**fields)
    cluster.create_topics([TopicSpec("in", 1)], 1.0)
    return cluster


def in_role(fault: str, role: str) -> PlannedFault:
    return PlannedFault(fault, Target.parse(role), 0.0, 0.05)


@pytest.mark.parametrize("size", range(1, 8))
def test_a_majority_is_more_than_half_and_a_minority_less(size: int) -> None:
    brokers = range(1, size + 1)
    assert 2 * len(minority(brokers)) < size < 2 * len(majority(brokers))
    assert 2 * (len(minority(brokers)) + 1) >= size >= 2 * (len(majority(brokers)) - 1)


@pytest.mark.parametrize("role", TARGETS_OF_ROLES)
@pytest.mark.parametrize("fault", IN_ROLES)
def test_a_role_is_drawn_from_the_seed(fault: str, role: str) -> None:
    name = f"{fault}@{role}"
    require_known_fault(name, NEMESES)
    drawn = set()
    for seed in range(40):
        schedule = draw([aim(name, NEMESES)], TARGETS, 60, Random(seed), chosen_by_user=True)
        for planned in schedule.planned_faults:
            drawn.add(str(planned.target))
            stored = planned.as_table()
            assert PlannedFault.from_table(stored) == planned
            assert requested_name(stored, [fault, f"{fault}@leader:in/0", name]) == name
    assert drawn == TARGETS_OF_ROLES[role]


def test_every_role_is_tested_here() -> None:
    assert {role.partition(":")[0] for role in TARGETS_OF_ROLES} - {"2"} == ROLES.keys()


def test_a_fault_without_a_role_belongs_to_the_name_without_one() -> None:
    schedule = draw([NEMESES["kill-broker"]], TARGETS, 30, Random(1), chosen_by_user=True)
    requested = ["kill-broker@leader", "kill-broker"]
    assert {requested_name(planned.as_table(), requested) for planned in schedule.planned_faults} == {
        "kill-broker"
    }


@pytest.mark.parametrize(
    ("aimed", "message"),
    [
        ("leeder", 'no step or role "leeder"; did you mean "leader"'),
        ("leeder:in/0", 'no step or role "leeder"; did you mean "leader"'),
        ("controler", 'no step or role "controler"; did you mean "controller"'),
        ("shop:after-sent", 'no step or role "after-sent"; did you mean "after-send"'),
        ("majority:1,2", "the role majority has no name after a colon: write kill-broker@majority"),
        ("controller:2", "the role controller has no name after a colon: write kill-broker@controller"),
    ],
)
def test_an_unknown_role_is_refused(aimed: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        require_known_fault(f"kill-broker@{aimed}", NEMESES)


@pytest.mark.parametrize(
    ("aimed", "message"),
    [
        ("7", 'there is no broker "7"; there is 1, 2, 3'),
        ("leader:outt/0", 'there is no partition "outt/0"; did you mean "out/0"'),
        ("follower:in/5", 'there is no partition "in/5"; did you mean "in/0"'),
        ("txn-coordinator:shop-9", 'there is no transactional id "shop-9"; did you mean "shop-[12]"'),
        ("group-coordinator:nobody", 'there is no group "nobody"; there is g1, g2, g3'),
    ],
)
def test_a_name_that_the_run_does_not_have_is_refused(aimed: str, message: str) -> None:
    name = f"kill-broker@{aimed}"
    require_known_fault(name, NEMESES)
    with pytest.raises(UsageError, match=message):
        draw([aim(name, NEMESES)], TARGETS, 60, Random(1), chosen_by_user=True)


@pytest.mark.parametrize("role", ["minority", "majority", "all", "2", "follower", "controller"])
def test_a_role_needs_three_brokers(role: str) -> None:
    two = type(TARGETS)(**{**vars(TARGETS), "brokers": (1, 2)})
    with pytest.raises(UsageError, match=f"kill-broker@{role} needs 3 brokers or more"):
        draw([aim(f"kill-broker@{role}", NEMESES)], two, 60, Random(1), chosen_by_user=True)


@pytest.mark.parametrize(
    ("role", "target", "struck", "details"),
    [
        ("leader:in/0", "broker 1, leader of in/0", "broker 1", {"broker": "1", "partition": "in/0"}),
        ("follower:in/0", "broker 2, follower of in/0", "broker 2", {"broker": "2", "partition": "in/0"}),
        (
            "txn-coordinator:s-1",
            "broker 1, txn-coordinator of s-1",
            "broker 1",
            {"broker": "1", "transactional_id": "s-1"},
        ),
        (
            "group-coordinator:g",
            "broker 1, group-coordinator of g",
            "broker 1",
            {"broker": "1", "group": "g"},
        ),
        ("controller", "broker 1, active controller", "broker 1", {"broker": "1"}),
        ("broker:2", "broker 2", "broker 2", {"broker": "2"}),
        ("minority:3", "broker 3, a minority of the brokers", "broker 3", {"broker": "3"}),
        (
            "majority:1,3",
            "brokers 1 and 3, a majority of the brokers",
            "a majority of the brokers",
            {"brokers": "1, 3"},
        ),
        ("all:1,2,3", "brokers 1, 2 and 3, the whole cluster", "the whole cluster", {"brokers": "1, 2, 3"}),
    ],
)
@pytest.mark.parametrize("fault", IN_ROLES)
def test_a_fault_names_the_brokers_that_had_the_role_and_proves_their_end(
    fault: str, role: str, target: str, struck: str, details: Mapping[str, str]
) -> None:
    cluster, planned = started(), in_role(fault, role)
    numbers = {int(number) for number in details.get("brokers", details.get("broker", "")).split(",")}
    with NEMESES[fault].inject(fault_context(cluster, time_scale=0.01), planned) as effect:
        assert {broker.id for broker in cluster.brokers if not broker.running} == numbers
    assert all(broker.running for broker in cluster.brokers)
    assert (effect.target, effect.acted, effect.unmet_goals) == (target, True, {})
    assert effect.details == {**details, "role": planned.target.role}
    assert effect.describe(NEMESES[fault].past_tense) == f"{struck} {NEMESES[fault].past_tense}"
    ending = {
        "kill-broker": "ended by SIGKILL",
        "restart-broker": "after SIGTERM",
        "pause-broker": "stopped by SIGSTOP",
    }[fault]
    assert effect.proof[0].count(ending) == len(numbers)


@pytest.mark.parametrize("role", ["leader:in/0", "txn-coordinator:s-1", "group-coordinator:g", "controller"])
@pytest.mark.parametrize("fault", IN_ROLES)
def test_a_fault_did_not_act_if_its_broker_keeps_the_role(fault: str, role: str) -> None:
    cluster, planned = started(moves=False), in_role(fault, role)
    with NEMESES[fault].inject(fault_context(cluster, time_scale=0.001), planned) as effect:
        pass
    assert not effect.acted and "to leave broker 1" in effect.unmet_goals["failover"]
    assert all(broker.running for broker in cluster.brokers)


@pytest.mark.parametrize("fault", IN_ROLES)
def test_a_fault_on_a_follower_did_not_act_if_the_follower_stays_in_the_isr(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = {0: PartitionView(2, (1, 2, 3), (2, 3), "in")}
    monkeypatch.setattr(FakeCluster, "describe", lambda cluster, topic: view)
    with NEMESES[fault].inject(
        fault_context(started(), time_scale=0.001), in_role(fault, "follower:in/0")
    ) as effect:
        pass
    assert effect.target == "broker 3, follower of in/0"  # broker 1 was not in sync
    assert not effect.acted and "broker 3 to leave the ISR of in/0" in effect.unmet_goals["failover"]


@pytest.mark.parametrize(
    ("fault", "stop", "heal"),
    [
        ("kill-broker", "kill", "start"),
        ("restart-broker", "stop", "start"),
        ("pause-broker", "pause", "resume"),
    ],
)
def test_several_brokers_stop_and_start_at_the_same_time(
    fault: str, stop: str, heal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that starts alone waits for the quorum of the controllers, which the other brokers are."""
    all_called = threading.Barrier(3, timeout=10)
    for method in (stop, heal):
        act = getattr(FakeBroker, method)
        monkeypatch.setattr(FakeBroker, method, lambda broker, act=act: (all_called.wait(), act(broker))[1])
    cluster = started()
    with NEMESES[fault].inject(fault_context(cluster), in_role(fault, "all:1,2,3")) as effect:
        assert not any(broker.running for broker in cluster.brokers)
    assert effect.acted and all(broker.running for broker in cluster.brokers)


@pytest.mark.parametrize("fault", IN_ROLES)
def test_a_majority_that_does_not_come_back_fails_the_run(fault: str) -> None:
    with (
        pytest.raises(FaultFailed, match="does not come back"),
        NEMESES[fault].inject(fault_context(started(heal_fails=True)), in_role(fault, "majority:1,2")),
    ):
        pass


def test_if_one_of_several_brokers_cannot_be_stopped_all_are_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kill = FakeBroker.kill

    def kill_all_but_the_second(broker: FakeBroker) -> str:
        if broker.id == 2:
            raise FaultFailed("broker 2 could not be killed")
        return kill(broker)

    monkeypatch.setattr(FakeBroker, "kill", kill_all_but_the_second)
    cluster = started()
    with (
        pytest.raises(FaultFailed, match="broker 2 could not be killed"),
        NEMESES["kill-broker"].inject(fault_context(cluster), in_role("kill-broker", "all:1,2,3")),
    ):
        pass
    assert all(broker.running for broker in cluster.brokers)


def test_a_broker_that_the_cluster_does_not_have_fails_the_run() -> None:
    with (
        pytest.raises(FaultFailed, match="broker:9 is broker 9, which is not in this cluster"),
        NEMESES["kill-broker"].inject(fault_context(started()), in_role("kill-broker", "broker:9")),
    ):
        pass


@pytest.mark.parametrize("fault", IN_ROLES)
def test_no_fault_waits_for_a_worker_while_several_brokers_are_away(fault: str) -> None:
    occupies = NEMESES[fault].occupies
    assert (
        occupies(in_role(fault, "controller")) == occupies(in_role(fault, "minority:2")) == {Resource.BROKERS}
    )
    assert occupies(in_role(fault, "majority:1,2")) == {Resource.BROKERS, Resource.WORKERS}


@pytest.mark.parametrize(
    ("target", "fits"),
    [
        ("minority:1", True),
        ("minority:1,2", True),
        ("minority:1,2,3", False),
        ("majority:1,2", False),
        ("majority:1,2,3", True),
        ("majority:1,2,3,4", True),
        ("all:1,2,3,4", False),
        ("all:1,2,3,4,5", True),
        ("minority:1,1", False),
        ("minority:", False),
    ],
)
def test_a_minority_and_a_majority_have_any_number_that_fits(target: str, fits: bool) -> None:
    role, _, name = target.partition(":")
    with nullcontext() if fits else pytest.raises(UsageError, match=f"{target} is not"):
        require_numbers(role, name, range(1, 6))
