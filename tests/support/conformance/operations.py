"""Checks that a cluster can move partitions, and change topics and features.

Each check changes them back, except that added partitions stay.
"""

import pytest

from harness.cluster import Cluster
from harness.common.errors import FaultFailed
from harness.common.waiting import wait_for
from tests.support.conformance.means import MOVE_TIMEOUT_S, ONLY_USER, SMALL, TOPIC, ClusterUser

FEATURE = "transaction.version"


def check_a_leader_moves(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    topic = user.name(TOPIC)
    first = cluster.describe(topic)[0].replicas
    for replicas in (first[1:] + first[:1], first[1:], first):
        cluster.reassign({(topic, 0): replicas})
        wait_for(
            lambda replicas=replicas: cluster.describe(topic)[0].replicas == replicas,  # type: ignore[misc]
            f"the replicas {replicas}",
            MOVE_TIMEOUT_S,
        )
        cluster.elect_preferred([(topic, 0)])
        wait_for(
            lambda replicas=replicas: cluster.describe(topic)[0].leader == replicas[0],  # type: ignore[misc]
            f"broker {replicas[0]} to lead",
            MOVE_TIMEOUT_S,
        )
    cluster.await_in_sync(MOVE_TIMEOUT_S)
    assert cluster.transactions_partition(user.name("a"))[0] == "__transaction_state"


def check_settings_of_a_topic_change(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    topic = user.name(TOPIC)
    before = cluster.alter_topic(topic, {"segment.ms": "60000"})
    assert before == {"segment.ms": "604800000"}
    assert cluster.alter_topic(topic, before) == {"segment.ms": "60000"}
    leader = cluster.brokers[cluster.describe(topic)[0].leader - 1]
    assert leader.segments((topic, 0)) == 1
    assert leader.segments(("no-such-topic", 0)) == 0


def check_a_feature_changes(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        assert broker.kafka_version()
        levels = cluster.finalized_features(broker.id)
        assert cluster.supported_features(broker.id)["metadata.version"] >= levels["metadata.version"]
    level = cluster.finalized_features().get(FEATURE, 0)
    if FEATURE not in cluster.supported_features(cluster.brokers[0].id):
        return
    for changed in (level - 1, level):
        cluster.update_features({FEATURE: changed})
        wait_for(
            lambda changed=changed: cluster.finalized_features().get(FEATURE, 0) == changed,  # type: ignore[misc]
            f"{FEATURE} {changed}",
            MOVE_TIMEOUT_S,
        )


def check_partitions_are_added(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    topic = user.name(SMALL)
    before = len(cluster.describe(topic))
    for count in (before + 2, before + 2, before + 3):  # the second changes nothing
        cluster.add_partitions(topic, count)
        wait_for(
            lambda count=count: all(  # type: ignore[misc]
                sorted(views) == list(range(count)) and all(view.leader > 0 for view in views.values())
                for views in cluster.describe_by_broker(topic).values()
            ),
            f"every broker to know {count} partitions",
            MOVE_TIMEOUT_S,
        )
    cluster.await_in_sync(MOVE_TIMEOUT_S, [topic])
    assert all(len(views) == before + 3 for views in cluster.describe_by_broker(topic).values())
    assert not any(cluster.describe_by_broker(user.name("no-such-topic")).values())
    if user.shared:
        with pytest.raises(FaultFailed, match="is not a topic of this run"):
            cluster.add_partitions("a-strangers-topic", 5)
