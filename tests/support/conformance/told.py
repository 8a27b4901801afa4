"""What a cluster tells: its brokers, topics, offsets, transactions, settings, and who asks for what."""

import psutil
import pytest
from confluent_kafka import Producer, TopicPartition
from kafka.protocol.metadata import FindCoordinatorRequest

from harness.clients.client_properties import librdkafka_properties
from harness.cluster import Cluster
from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_for
from harness.model.pipeline import TopicSpec
from harness.model.vocabulary import Isolation
from harness.wire.protocol import send_request
from tests.support.conformance.means import (
    ENDPOINT,
    GROUP,
    HOST,
    INTERNAL,
    SEEN,
    SMALL,
    TOPIC,
    WITHIN_S,
    Footing,
    high,
    listed,
    producing,
    read,
    reader,
    state,
)


def check_every_broker_is_registered(cluster: Cluster, footing: Footing = HOST) -> None:
    assert cluster.out_of_sync() == []
    known = set(listed(cluster).brokers)
    assert known
    if cluster.brokers:
        assert known == {broker.id for broker in cluster.brokers}
        assert all(broker.running and psutil.pid_exists(broker.pid) for broker in cluster.brokers)
    assert cluster.controller() in known


def check_topics_are_in_sync_when_they_are_created(cluster: Cluster, footing: Footing = HOST) -> None:
    topic = footing.name(TOPIC)
    wanted = [TopicSpec(topic, 6), TopicSpec(footing.name(SMALL), 1), TopicSpec(footing.name(SEEN), 3)]
    cluster.create_topics(wanted, 60)
    assert cluster.out_of_sync() == []
    views = cluster.describe(topic)
    assert sorted(views) == list(range(6))
    ids = set(listed(cluster).brokers)
    for view in views.values():
        assert set(view.replicas) == set(view.isr) == ids
        assert view.leader in ids
    assert len({view.topic_id for view in views.values()}) == 1
    for internal in INTERNAL:
        told = cluster.describe(internal)
        assert told or footing.guest, f"{internal} was not made"
        assert {len(view.isr) for view in told.values()} <= {min(3, len(ids))}
    assert not cluster.describe(footing.name("no-such-topic"))
    if footing.guest:  # what is there already is somebody else's
        with pytest.raises(EnvironmentFailure, match="exists already"):
            cluster.create_topics([TopicSpec(topic, 6)], 60)
        return
    cluster.create_topics([TopicSpec(topic, 6)], 60)  # again: nothing happens
    assert {view.topic_id for view in cluster.describe(topic).values()} == {views[0].topic_id}


def check_transactions_are_read_whole_or_not_at_all(cluster: Cluster, footing: Footing = HOST) -> None:
    topic, group, before = footing.name(SMALL), footing.name(GROUP), high(cluster, footing.name(SMALL), 0)
    member = reader(cluster, Isolation.READ_COMMITTED, group)
    producer = producing(cluster, footing.name("whole"))
    for commits, values in ((True, [b"1", b"2", b"3"]), (False, [b"x", b"y"]), (True, [b"4"])):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        if commits:
            place = TopicPartition(topic, 0, before + int(values[-1]))
            producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), WITHIN_S)
            producer.commit_transaction(WITHIN_S)
        else:
            assert producer.flush(WITHIN_S) == 0
            producer.abort_transaction(WITHIN_S)
    member.close()
    assert read(cluster, topic, 0, Isolation.READ_COMMITTED, before) == [b"1", b"2", b"3", b"4"]
    everything = [b"1", b"2", b"3", b"x", b"y", b"4"]
    assert read(cluster, topic, 0, Isolation.READ_UNCOMMITTED, before) == everything
    wait_for(
        lambda: cluster.committed_offsets(group) == {(topic, 0): before + 4}, "the group's offset", WITHIN_S
    )
    assert cluster.committed_offsets(footing.name("no-such-group")) == {}


def check_coordinators_are_those_that_the_brokers_name(cluster: Cluster, footing: Footing = HOST) -> None:
    at = footing.address(cluster)
    names = ["", "a", "polygenelubricants", "shop-1", "Straße", "\U0001f600"]
    names = [footing.name(name) for name in names]
    for kind, ours in ((0, cluster.group_coordinator), (1, cluster.txn_coordinator)):
        request = FindCoordinatorRequest(coordinator_keys=names[kind == 1 :], key_type=kind, version=4)
        told = {one.key: one.node_id for one in send_request(at, request, 10).coordinators if one.key}
        assert told == {name: ours(name) for name in told}
        assert len(told) >= 5
    topic, number = cluster.offsets_partition(footing.name(GROUP))
    assert topic == "__consumer_offsets"
    if there := cluster.describe(topic):
        assert there[number].leader == cluster.group_coordinator(footing.name(GROUP))


def check_offsets_are_told(cluster: Cluster, footing: Footing = HOST) -> None:
    topic, id_ = footing.name(SMALL), footing.name("checks")
    place = (topic, 0)
    at = high(cluster, *place)
    assert cluster.describe_transaction(footing.name("nobodys")) is None
    producer = producing(cluster, id_)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"x")
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    # 3 records, a marker; 1 that is open.
    assert cluster.log_offsets([topic]) == {place: (0, at + 4, at + 5)}
    told = cluster.describe_transaction(id_)
    assert told is not None
    assert (told.state, told.partitions) == ("Ongoing", (place,))
    assert told.producer_id >= 0 and told.epoch >= 0
    producer.abort_transaction(30)
    wait_for(lambda: cluster.log_offsets([topic])[place] == (0, at + 6, at + 6), "the abort's marker", 10)
    wait_for(lambda: state(cluster, id_) == "CompleteAbort", "the abort to be complete", 10)


def check_features_and_settings_are_told(cluster: Cluster, footing: Footing = HOST) -> None:
    features = cluster.finalized_features()
    assert features["metadata.version"] > 0
    assert all(level > 0 for level in features.values())
    assert cluster.compacted([footing.name(TOPIC)]) == {footing.name(TOPIC): False}


def check_requests_are_recorded_and_then_no_more(cluster: Cluster, footing: Footing = HOST) -> None:
    def send() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_for(ENDPOINT), **librdkafka_properties()})
        producer.produce(footing.name(SMALL), b"x")
        assert producer.flush(30) == 0

    cluster.record_requests(True)
    send()
    cluster.record_requests(False)
    told = cluster.client_versions([ENDPOINT])
    if footing.guest:  # the brokers' logs are not a guest's to turn on
        assert not told.versions
        return
    assert {"Produce", "Metadata", "ApiVersions"} <= set(told.versions)
    assert all(len(versions) == 1 for versions in told.versions.values())
    assert len(told.software) == 1
    send()
    assert not cluster.client_versions([ENDPOINT]).versions
    cluster.record_requests(True)
    send()
    cluster.record_requests(False)
    assert "Produce" in cluster.client_versions([ENDPOINT]).versions  # read or not, it can be recorded again


def check_clients_find_no_way_round(cluster: Cluster, footing: Footing = HOST) -> None:
    """Whoever comes by a endpoint is sent to that endpoint's listeners, and to no other."""
    advertised = {f"{one.host}:{one.port}" for one in listed(cluster).brokers.values()}
    assert advertised == set(cluster.bootstrap_for(ENDPOINT).split(","))
    if not footing.guest:
        assert advertised.isdisjoint(cluster.bootstrap.split(","))
