"""Cluster operations as faults: they act and are healed, they say that they did not act, and bad input is refused."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fencepost.registry import aim, require_known_fault
from harness.cluster import PartitionView
from harness.common.errors import FaultFailed, UsageError, WaitTimeout
from harness.environment.kafka import versions
from harness.model.fault_names import requested_name
from harness.model.pipeline import TopicSpec
from harness.runner.nemesis import FaultTargets, InjectedFault, PlannedFault, Target, TargetMissing
from harness.testing.fake_cluster import FakeBroker, FakeCluster, fault_context
from nemeses.placement import elsewhere
from nemeses.registry import NEMESES
from tests.support.drawn_schedule import draw
from tests.unit.harness.test_schedule import TARGETS

OPERATIONS = (
    "move-leader",
    "reassign-partitions",
    "rolling-restart",
    "rolling-upgrade",
    "change-transaction-version",
    "roll-segments",
    "add-partitions",
)
NEWEST, NEWER, *_, OLDEST = versions()


def started(size: int = 3, **fields: Any) -> FakeCluster:
    """Return a cluster with the topic `in` of two partitions."""
    cluster = FakeCluster(size, **fields)
    cluster.create_topics([TopicSpec("in", 2)], 1.0)
    return cluster


def act(cluster: FakeCluster, fault: str, target: str) -> InjectedFault:
    """Inject a fault, and heal it."""
    planned = PlannedFault(fault, Target.parse(target), 0.0, 0.05)
    with NEMESES[fault].inject(fault_context(cluster, time_scale=0.001), planned) as effect:
        pass
    return effect


def drawn_targets(name: str, targets: FaultTargets) -> set[str]:
    """Return the targets that `--nemesis NAME` can have, after checking that each can be stored."""
    require_known_fault(name, NEMESES)
    drawn = set()
    for seed in range(40):
        schedule = draw([aim(name, NEMESES)], targets, 240, Random(seed), chosen_by_user=True)
        for planned in schedule.planned_faults:
            assert PlannedFault.from_table(planned.as_table()) == planned
            assert requested_name(planned.as_table(), [name]) == name
            drawn.add(str(planned.target))
    return drawn


@pytest.mark.parametrize("fault", OPERATIONS)
def test_an_operation_is_injected_only_if_the_user_names_it(fault: str) -> None:
    assert not NEMESES[fault].by_default


@pytest.mark.parametrize(
    ("target", "role", "partition"),
    [
        ("leader:in/1", "in/1", ("in", 1)),
        ("txn-coordinator:s-1", "txn s-1", ("__transaction_state", 0)),
        ("group-coordinator:g", "group g", ("__consumer_offsets", 0)),
    ],
)
def test_a_leader_moves_and_comes_back_while_its_broker_runs(
    target: str, role: str, partition: tuple[str, int]
) -> None:
    cluster = started()
    planned = PlannedFault("move-leader", Target.parse(target), 0.0, 0.05)
    with NEMESES["move-leader"].inject(fault_context(cluster), planned) as effect:
        assert cluster.leader_of(role) == 2 and all(broker.running for broker in cluster.brokers)
        assert cluster.replicas[partition] == (2, 3, 1)
    assert cluster.leader_of(role) == 1 and cluster.replicas[partition] == (1, 2, 3)
    assert effect.acted and "no broker ended" in effect.proof
    assert effect.describe("handed over its leadership") == "broker 1 handed over its leadership"


def test_a_leader_that_moves_because_its_broker_ended_proves_nothing() -> None:
    cluster = started()
    elect = cluster.elect_preferred

    def restart_and_elect(partitions: Any) -> None:
        cluster.brokers[0].kill()
        cluster.brokers[0].start()
        elect(partitions)

    cluster.elect_preferred = restart_and_elect  # type: ignore[method-assign]
    planned = PlannedFault("move-leader", Target("leader", "in/1"), 0.0, 0.05)
    with NEMESES["move-leader"].inject(fault_context(cluster), planned) as effect:
        pass
    assert not effect.acted
    assert effect.unmet_goals == {"no-broker-ended": "a broker ended while the leadership moved"}


def test_a_leader_moves_to_a_replica_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FakeCluster, "describe", lambda cluster, topic: {0: PartitionView(1, (1, 2, 3), (1, 3), topic)}
    )
    asked: list[Mapping[tuple[str, int], Any]] = []
    monkeypatch.setattr(FakeCluster, "reassign", lambda cluster, replicas: asked.append(replicas))
    monkeypatch.setattr(FakeCluster, "elect_preferred", lambda cluster, partitions: None)
    act(started(), "move-leader", "leader:in/0")
    assert asked == [{("in", 0): (3, 2, 1)}, {("in", 0): (1, 2, 3)}]


def test_a_leader_is_elected_again_until_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = started()
    elections: list[Any] = []

    def third_time(partitions: Any) -> None:
        elections.append(partitions)
        if len(elections) != 2:  # the first one at the heal, as if the first replica was down
            elect(partitions)

    elect = cluster.elect_preferred
    monkeypatch.setattr(cluster, "elect_preferred", third_time)
    act(cluster, "move-leader", "leader:in/0")
    assert cluster.leader_of("leader:in/0") == 1 and len(elections) == 3


def test_a_leader_cannot_move_from_the_only_replica_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FakeCluster, "describe", lambda cluster, topic: {0: PartitionView(1, (1, 2), (1,), topic)}
    )
    with pytest.raises(TargetMissing, match="in/0 has no other replica in sync than that of broker 1"):
        act(started(), "move-leader", "leader:in/0")


def test_a_leader_that_stays_did_not_move() -> None:
    cluster = started()
    cluster.elect_preferred = lambda partitions: None  # type: ignore[method-assign]
    planned = PlannedFault("move-leader", Target("leader", "in/0"), 0.0, 0.05)
    context = fault_context(cluster, time_scale=0.001)
    with NEMESES["move-leader"].inject(context, planned) as effect:
        assert not effect.acted
    assert "leader:in/0 to leave broker 1" in effect.unmet_goals["failover"]


@pytest.mark.parametrize(
    ("brokers", "replicas", "leader", "number", "new"),
    [
        ((1, 2, 3), (1, 2, 3), 1, 0, (2, 3)),  # a replica less
        ((1, 2, 3), (1, 2, 3), 1, 1, (3, 2)),
        ((1, 2, 3, 4, 5), (1, 2, 3), 1, 0, (4, 5, 2)),  # brokers without a replica come first
        ((1, 2, 3, 4, 5), (1, 2, 3), 2, 3, (5, 4, 1)),
        ((1, 2), (1,), 1, 0, (2,)),
    ],
)
def test_a_partition_leaves_the_broker_that_leads_it(
    brokers: tuple[int, ...], replicas: tuple[int, ...], leader: int, number: int, new: tuple[int, ...]
) -> None:
    assert elsewhere(PartitionView(leader, replicas, replicas, "in"), brokers, number) == new


def test_partitions_move_to_other_brokers_and_back() -> None:
    cluster = started(4)
    planned = PlannedFault("reassign-partitions", Target("topic", "in"), 0.0, 0.05)
    with NEMESES["reassign-partitions"].inject(fault_context(cluster), planned) as effect:
        assert all(1 not in cluster.replicas["in", number][:1] for number in range(2))
        assert effect.acted and "2 partitions of in left the brokers that led them" in effect.proof[0]
    assert set(cluster.replicas.values()) == {(1, 2, 3, 4)}
    assert cluster.leader_of("in/0") == cluster.leader_of("in/1") == 1


@pytest.mark.parametrize("fault", ["reassign-partitions", "roll-segments", "add-partitions"])
def test_a_topic_that_does_not_exist_is_no_target(fault: str) -> None:
    with pytest.raises(TargetMissing, match="there is no topic out"):
        act(started(), fault, "topic:out")


def test_partitions_that_stay_where_they_are_did_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = started(moves=False)
    cluster.replicas = {("in", number): (1, 2, 3) for number in range(2)}
    effect = act(cluster, "reassign-partitions", "topic:in")
    assert not effect.acted and "in to have the new replicas" in effect.unmet_goals["moved"]


def test_every_broker_is_restarted_and_the_next_one_waits_until_all_are_in_sync() -> None:
    cluster = started()
    pids = [broker.pid for broker in cluster.brokers]
    effect = act(cluster, "rolling-restart", "all:2,3,1")
    assert [proof[:9] for proof in effect.proof] == ["broker 2:", "broker 3:", "broker 1:"]
    assert "process 4702 ended with status 0 after SIGTERM, then in sync as process 4802" in effect.proof[0]
    assert not {broker.pid for broker in cluster.brokers} & set(pids)
    assert effect.describe("restarted in turn") == "brokers 2, 3 and 1 restarted in turn"


def test_a_broker_that_another_fault_has_stopped_cannot_be_restarted() -> None:
    cluster = started()
    cluster.brokers[2].kill()
    with pytest.raises(TargetMissing, match="broker 3, which another fault has stopped"):
        act(cluster, "rolling-restart", "all:1,2,3")
    assert all(broker.running for broker in cluster.brokers[:2])


@pytest.mark.parametrize("target", ["all:1,2,3", "versions:4.3.1,4.4.0"])
def test_a_broker_that_does_not_come_back_fails_the_run(target: str) -> None:
    fault = "rolling-restart" if target.startswith("all") else "rolling-upgrade"
    with pytest.raises(FaultFailed, match="broker 1 does not come back"):
        act(started(heal_fails=True), fault, target)


def test_an_upgrade_ends_with_the_features_of_the_new_version() -> None:
    cluster = started()
    effect = act(cluster, "rolling-upgrade", "versions:4.3.1,4.4.0")
    assert {broker.kafka for broker in cluster.brokers} == {"4.4.0"}
    assert cluster.finalized_features()["metadata.version"] == 32
    assert effect.proof[0].endswith("of Kafka 4.4.0, which supports metadata.version 32")
    assert effect.proof[3] == "finalized for Kafka 4.4.0: metadata.version 31 to 32"
    assert effect.details == {"broker": "1, 2, 3", "versions": "4.3.1, 4.4.0"}


def test_an_upgrade_that_goes_back_finalizes_no_feature() -> None:
    cluster = started()
    effect = act(cluster, "rolling-upgrade", "versions:4.3.1,4.4.0,4.3.1")
    assert {broker.kafka for broker in cluster.brokers} == {"4.3.1"}
    assert cluster.finalized_features()["metadata.version"] == 31
    assert effect.acted and len(effect.proof) == 6


def test_a_broker_that_keeps_its_version_was_not_upgraded() -> None:
    cluster = started()
    cluster.use_kafka = lambda broker, version: None  # type: ignore[method-assign]
    with pytest.raises(WaitTimeout, match=r"broker 1 to log that it is Kafka 4\.4\.0; last seen: 4\.3\.1"):
        act(cluster, "rolling-upgrade", "versions:4.3.1,4.4.0")


def test_the_transaction_version_changes_and_comes_back() -> None:
    cluster = started()
    planned = PlannedFault(
        "change-transaction-version", Target("feature", "transaction.version=1"), 0.0, 0.05
    )
    with NEMESES["change-transaction-version"].inject(fault_context(cluster), planned) as effect:
        assert cluster.finalized_features()["transaction.version"] == 1
    assert cluster.finalized_features()["transaction.version"] == 2
    assert effect.proof == ["brokers 1, 2 and 3 say that transaction.version is 1, and no longer 2"]
    assert effect.describe("was changed") == "transaction.version was changed"


def test_a_transaction_version_that_the_cluster_has_is_no_change() -> None:
    with pytest.raises(TargetMissing, match=r"transaction\.version is 2 already"):
        act(started(), "change-transaction-version", "feature:transaction.version=2")


def test_a_broker_with_the_old_transaction_version_fails_the_change() -> None:
    with pytest.raises(
        WaitTimeout, match=r"every broker to say that transaction\.version is 1; last seen: 1: 2"
    ):
        act(started(moves=False), "change-transaction-version", "feature:transaction.version=1")


def test_segments_are_rolled_and_the_topic_gets_its_settings_back() -> None:
    cluster = started()
    planned = PlannedFault("roll-segments", Target("topic", "in"), 0.0, 0.05)
    with NEMESES["roll-segments"].inject(fault_context(cluster), planned) as effect:
        assert cluster.settings["in"]["segment.ms"] == "1000"
    assert cluster.settings["in"]["segment.ms"] == "604800000"
    assert effect.acted and effect.proof[0] == "broker 1 had 2 segment files of in, and then 5"


def test_the_segments_of_a_broker_that_was_down_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = started()
    for broker in cluster.brokers[:-1]:
        broker.kill()

    def segments(broker: FakeBroker, partition: Any) -> int:
        for other in cluster.brokers:
            other.state = "up"  # so from the second count on, the others are counted too
        return 1

    monkeypatch.setattr(FakeBroker, "segments", segments)
    planned = PlannedFault("roll-segments", Target("topic", "in"), 0.0, 0.05)
    with NEMESES["roll-segments"].inject(fault_context(cluster, time_scale=0.001), planned) as effect:
        pass
    assert not effect.acted and "a new segment of in" in effect.unmet_goals["rolled"]


def test_the_compactions_of_the_topic_are_counted(tmp_path: Path) -> None:
    cluster = started()
    log = cluster.brokers[0].log_file = tmp_path / "server.log"
    log.write_text("cleaned log in-0 (dirty section = [0, 5])\n")
    planned = PlannedFault("roll-segments", Target("topic", "in"), 0.0, 0.05)
    with NEMESES["roll-segments"].inject(fault_context(cluster), planned) as effect:
        log.write_text("cleaned log in-0 (\ncleaned log in-1 (\ncleaned log in-10-0 (\ncleaned log in-2 (\n")
    assert effect.proof[-1] == "the log cleaners compacted its replicas 2 times"


def test_a_topic_without_new_segments_was_not_rolled() -> None:
    effect = act(started(busy=False), "roll-segments", "topic:in")
    assert not effect.acted and "a new segment of in" in effect.unmet_goals["rolled"]


def add(cluster: FakeCluster, more: int = 2, topics: tuple[str, ...] = ("in",)) -> InjectedFault:
    """Add partitions to the topic `in`, 12.3 s after the run began."""
    planned = PlannedFault("add-partitions", Target("topic", "in"), 0.0, 0.05, {"more": more})
    zero_ns = time.monotonic_ns() - int(12.3e9)
    context = fault_context(cluster, time_scale=0.001, topics=topics, zero_ns=zero_ns)
    with NEMESES["add-partitions"].inject(context, planned) as effect:
        pass
    return effect


def test_partitions_are_added_and_stay() -> None:
    cluster = started()
    effect = add(cluster)
    assert len(cluster.describe("in")) == 4
    assert effect.acted and effect.proof[0] == "in had 2 partitions, and has 4 since 12.3 s"
    assert "each of the brokers 1, 2 and 3 knew all of them, each with a leader" in effect.proof[1]
    assert effect.details == {"topic": "in", "partitions_before": "2", "partitions_after": "4"}
    assert effect.describe("got more partitions") == "topic in got more partitions"


def test_a_second_fault_adds_partitions_to_those_of_the_first() -> None:
    cluster = started()
    add(cluster)
    assert add(cluster, 1).details["partitions_before"] == "4" and len(cluster.describe("in")) == 5


def test_on_a_shared_cluster_the_topic_has_the_tag_of_the_run() -> None:
    cluster = FakeCluster()
    cluster.create_topics([TopicSpec("fencepost-1-new-in", 2), TopicSpec("fencepost-1-in", 2)], 1.0)
    effect = add(cluster, topics=("fencepost-1-new-in", "fencepost-1-in"))
    assert effect.details["topic"] == "fencepost-1-in" and len(cluster.describe("fencepost-1-in")) == 4
    assert len(cluster.describe("fencepost-1-new-in")) == 2


def test_a_broker_that_is_down_need_not_know_the_new_partitions() -> None:
    cluster = started()
    cluster.brokers[1].kill()
    assert "each of the brokers 1 and 3 knew" in add(cluster).proof[1]


@pytest.mark.parametrize("leader", [-1, None])
def test_partitions_that_a_broker_does_not_know_with_a_leader_were_not_added(
    leader: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = started()
    known = {number: PartitionView(1, (1, 2), (1, 2), "in") for number in range(4)}
    behind = {n: view for n, view in known.items() if n < 3}
    if leader is not None:
        behind[3] = replace(known[3], leader=leader)
    monkeypatch.setattr(cluster, "describe_by_broker", lambda topic: {1: known, 2: behind})
    effect = add(cluster)
    assert not effect.acted and "partitions_after" not in effect.details
    assert effect.unmet_goals["partitions-added"].endswith("last seen: broker 1: 4, broker 2: 3")


def test_partitions_are_not_added_if_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = started()
    monkeypatch.setattr(cluster, "describe_by_broker", lambda topic: {})
    assert not add(cluster).acted


def test_partitions_that_the_controller_does_not_add_are_a_goal_that_was_not_reached() -> None:
    effect = add(started(moves=False))
    assert (
        not effect.acted
        and "every broker to know 4 partitions of in" in effect.unmet_goals["partitions-added"]
    )


OWN_TOPICS = {"topic:in", "topic:out", "topic:paid"}
TOPICS = OWN_TOPICS | {"topic:__consumer_offsets", "topic:__transaction_state"}
PATHS = {
    "rolling-upgrade": f"versions:{NEWER},{NEWEST}",
    f"rolling-upgrade@{NEWEST}": f"versions:{NEWER},{NEWEST}",
    "rolling-upgrade@all": f"versions:{NEWER},{NEWEST}",
    "rolling-upgrade@back": f"versions:{NEWER},{NEWEST},{NEWER}",
}


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("move-leader", {"leader:in/0", "leader:out/0", "leader:paid/0"}),
        ("move-leader@txn-coordinator:shop-2", {"txn-coordinator:shop-2"}),
        ("move-leader@group-coordinator:g1", {"group-coordinator:g1"}),
        ("reassign-partitions", TOPICS),
        ("reassign-partitions@topic:__transaction_state", {"topic:__transaction_state"}),
        ("roll-segments", TOPICS),
        ("roll-segments@topic:out", {"topic:out"}),
        ("add-partitions", {"topic:in"}),  # only the feeder writes it
        ("add-partitions@inputs", {"topic:in", "topic:out"}),
        ("add-partitions@outputs", {"topic:out", "topic:paid"}),
        ("add-partitions@paid", {"topic:paid"}),
        ("add-partitions@topic:paid", {"topic:paid"}),
        ("add-partitions@topic", OWN_TOPICS),
        ("change-transaction-version", {"feature:transaction.version=0", "feature:transaction.version=1"}),
        *((name, {path}) for name, path in PATHS.items()),
    ],
)
def test_the_target_is_drawn_from_the_seed(name: str, targets: set[str]) -> None:
    assert drawn_targets(name, replace(TARGETS, kafka=NEWER)) == targets


def test_a_topic_that_must_not_get_partitions_is_not_drawn() -> None:
    assert drawn_targets("add-partitions", replace(TARGETS, fixed_topics={"in": "X"})) == {"topic:out"}


def test_the_schedule_says_how_many_partitions_are_added() -> None:
    nemeses = [NEMESES["add-partitions"]]
    schedules = [draw(nemeses, TARGETS, 20, Random(seed), chosen_by_user=True) for seed in range(30)]
    assert {schedule.planned_faults[0].parameters["more"] for schedule in schedules} == {1, 2, 3}


def test_every_broker_is_in_the_order_of_a_rolling_restart() -> None:
    drawn = drawn_targets("rolling-restart", TARGETS)
    assert len(drawn) == 6 and all(len(Target.parse(target).brokers) == 3 for target in drawn)


def test_an_upgrade_to_all_versions_takes_each_pinned_one_in_turn() -> None:
    (target,) = drawn_targets("rolling-upgrade@all", replace(TARGETS, kafka=OLDEST))
    assert Target.parse(target).kafka_versions == tuple(reversed(versions()))


@pytest.mark.parametrize("level", [0, 1])
def test_from_an_old_transaction_version_the_change_leads_to_epochs_for_each_transaction(level: int) -> None:
    targets = replace(TARGETS, transaction_version=level)
    assert drawn_targets("change-transaction-version", targets) == {"feature:transaction.version=2"}


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("rolling-upgrade", {}, f"needs an older version at the start, such as --kafka {NEWER}"),
        (
            "rolling-upgrade@4.0.2",
            {"kafka": "4.3.1"},
            "needs an older version at the start: --kafka is 4.3.1",
        ),
        ("change-transaction-version", {"kafka": OLDEST, "transaction_version": 0}, "--kafka 4.0.2 or newer"),
        ("change-transaction-version", {"transactional_ids": {}}, "needs a pipeline with a transactional id"),
        ("move-leader", {"replicas": {"in": 1, "out": 1, "paid": 1}}, "a topic with two replicas or more"),
        ("move-leader", {"brokers": (1,)}, "needs 2 brokers or more"),
        ("rolling-restart", {"brokers": (1, 2)}, "needs 3 brokers or more"),
        ("roll-segments", {"abilities": frozenset()}, "(--cluster local or docker)"),
        ("rolling-upgrade", {"abilities": frozenset()}, "(--cluster local)"),
        (
            "add-partitions",
            {"abilities": frozenset()},
            "add partitions to topics (--cluster local or docker or external --set permits=topics)",
        ),
        ("add-partitions@inn", {}, 'there is no topic "inn"; did you mean "in"?'),
        ("add-partitions@topic:x", {}, 'there is no topic "x"; there is in, out, paid'),
        ("add-partitions@after-send", {}, 'there is no topic "after-send"'),
        ("add-partitions@__consumer_offsets", {}, "__consumer_offsets is an internal topic of Kafka"),
        ("add-partitions@__cluster_metadata", {}, "must not change: name one of in, out, paid"),
        (
            "add-partitions@rows",
            {"tables": ("rows",)},
            "rows is a table of a database, and has no partitions",
        ),
        (
            "add-partitions@in",
            {"fixed_topics": {"in": "X"}},
            "in must not get partitions, because X: name one of out, paid",
        ),
        (
            "add-partitions",
            {"fixed_topics": {"in": "X", "out": "Y"}},
            "needs a topic that a stage reads and that may get partitions: in must not get any, because X",
        ),
        (
            "add-partitions",
            {"reads": {}},
            "needs a topic that a stage reads and that may get partitions: choose",
        ),
    ],
)
def test_an_operation_that_is_not_possible_is_refused(
    name: str, fields: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        draw([aim(name, NEMESES)], replace(TARGETS, **fields), 240, Random(1), chosen_by_user=True)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("move-leader@follower", 'no step or role "follower"'),
        ("rolling-upgrade@4.9.9", 'no step or role "4.9.9"'),
        ("rolling-upgrade@all:4.4.0", "write rolling-upgrade@all, not"),
        ("add-partitions@inputs:in", "write add-partitions@inputs, not"),
        ("add-partitions@", "has nothing after the @: write add-partitions@TOPIC, or add-partitions alone"),
    ],
)
def test_an_unknown_role_of_an_operation_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        require_known_fault(name, NEMESES)
    assert message in str(refused.value)
