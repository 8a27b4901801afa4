"""Checks of a cluster's queries: brokers, topics, offsets, transactions, settings, and clients' requests."""

import psutil
import pytest
from confluent_kafka import TopicPartition
from kafka.protocol.metadata import FindCoordinatorRequest

from harness.cluster import Cluster
from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_for
from harness.model.pipeline import TopicSpec
from harness.model.vocabulary import Isolation
from harness.wire.protocol import send_request
from tests.support.conformance.means import (
    ENDPOINT,
    GROUP,
    INTERNAL_TOPICS,
    ONLY_USER,
    SMALL,
    TIMEOUT_S,
    TOPIC,
    WITNESSED,
    ClusterUser,
    cluster_metadata,
    high_watermark,
    make_consumer,
    read_values,
    transaction_state,
    transactional_producer,
)


def check_every_broker_is_registered(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    assert cluster.out_of_sync() == []
    known = set(cluster_metadata(cluster).brokers)
    assert known
    if cluster.brokers:
        assert known == {broker.id for broker in cluster.brokers}
        assert all(broker.running and psutil.pid_exists(broker.pid) for broker in cluster.brokers)
    assert cluster.controller() in known


def check_topics_are_in_sync_when_they_are_created(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    topic = user.name(TOPIC)
    topics = [TopicSpec(topic, 6), TopicSpec(user.name(SMALL), 1), TopicSpec(user.name(WITNESSED), 3)]
    cluster.create_topics(topics, 60)
    assert cluster.out_of_sync() == []
    views = cluster.describe(topic)
    assert sorted(views) == list(range(6))
    ids = set(cluster_metadata(cluster).brokers)
    for view in views.values():
        assert set(view.replicas) == set(view.isr) == ids
        assert view.leader in ids
    assert len({view.topic_id for view in views.values()}) == 1
    for internal in INTERNAL_TOPICS:
        partitions = cluster.describe(internal)
        assert partitions or user.shared, f"{internal} was not created"
        assert {len(view.isr) for view in partitions.values()} <= {min(3, len(ids))}
    assert not cluster.describe(user.name("no-such-topic"))
    if user.shared:  # a topic that exists already belongs to another user
        with pytest.raises(EnvironmentFailure, match="exists already"):
            cluster.create_topics([TopicSpec(topic, 6)], 60)
        return
    cluster.create_topics([TopicSpec(topic, 6)], 60)  # again: nothing happens
    assert {view.topic_id for view in cluster.describe(topic).values()} == {views[0].topic_id}


def check_transactions_are_atomic(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    topic, group, before = (
        user.name(SMALL),
        user.name(GROUP),
        high_watermark(cluster, user.name(SMALL), 0),
    )
    member = make_consumer(cluster, Isolation.READ_COMMITTED, group)
    producer = transactional_producer(cluster, user.name("whole"))
    for commits, values in ((True, [b"1", b"2", b"3"]), (False, [b"x", b"y"]), (True, [b"4"])):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        if commits:
            offset = TopicPartition(topic, 0, before + int(values[-1]))
            producer.send_offsets_to_transaction([offset], member.consumer_group_metadata(), TIMEOUT_S)
            producer.commit_transaction(TIMEOUT_S)
        else:
            assert producer.flush(TIMEOUT_S) == 0
            producer.abort_transaction(TIMEOUT_S)
    member.close()
    assert read_values(cluster, topic, 0, Isolation.READ_COMMITTED, before) == [b"1", b"2", b"3", b"4"]
    uncommitted = [b"1", b"2", b"3", b"x", b"y", b"4"]
    assert read_values(cluster, topic, 0, Isolation.READ_UNCOMMITTED, before) == uncommitted
    wait_for(
        lambda: cluster.committed_offsets(group) == {(topic, 0): before + 4}, "the group's offset", TIMEOUT_S
    )
    assert cluster.committed_offsets(user.name("no-such-group")) == {}


def check_coordinators_agree_with_the_brokers(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    at = user.address(cluster)
    names = ["", "a", "polygenelubricants", "shop-1", "Straße", "\U0001f600"]
    names = [user.name(name) for name in names]
    for kind, ours in ((0, cluster.group_coordinator), (1, cluster.txn_coordinator)):
        request = FindCoordinatorRequest(coordinator_keys=names[kind == 1 :], key_type=kind, version=4)
        response = send_request(at, request, 10)
        coordinators = {entry.key: entry.node_id for entry in response.coordinators if entry.key}
        assert coordinators == {name: ours(name) for name in coordinators}
        assert len(coordinators) >= 5
    topic, number = cluster.offsets_partition(user.name(GROUP))
    assert topic == "__consumer_offsets"
    if partitions := cluster.describe(topic):
        assert partitions[number].leader == cluster.group_coordinator(user.name(GROUP))


def check_offsets_and_transactions_are_described(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    topic, id_ = user.name(SMALL), user.name("checks")
    topic_partition = (topic, 0)
    at = high_watermark(cluster, *topic_partition)
    assert cluster.describe_transaction(user.name("unused")) is None
    producer = transactional_producer(cluster, id_)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"x")
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    # Three records and a marker, then one record of an open transaction.
    assert cluster.log_offsets([topic]) == {topic_partition: (0, at + 4, at + 5)}
    transaction = cluster.describe_transaction(id_)
    assert transaction is not None
    assert (transaction.state, transaction.partitions) == ("Ongoing", (topic_partition,))
    assert transaction.producer_id >= 0 and transaction.epoch >= 0
    producer.abort_transaction(30)
    wait_for(
        lambda: cluster.log_offsets([topic])[topic_partition] == (0, at + 6, at + 6), "the abort's marker", 10
    )
    wait_for(lambda: transaction_state(cluster, id_) == "CompleteAbort", "the abort to be complete", 10)


def check_features_and_settings_are_described(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    features = cluster.finalized_features()
    assert features["metadata.version"] > 0
    assert all(level > 0 for level in features.values())
    assert cluster.compacted([user.name(TOPIC)]) == {user.name(TOPIC): False}


def check_clients_learn_only_their_endpoint(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    """A client of an endpoint gets only the addresses of that endpoint's listeners."""
    advertised = {f"{broker.host}:{broker.port}" for broker in cluster_metadata(cluster).brokers.values()}
    assert advertised == set(cluster.bootstrap_for(ENDPOINT).split(","))
    if not user.shared:
        assert advertised.isdisjoint(cluster.bootstrap.split(","))
