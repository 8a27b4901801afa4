"""Checks that a cluster records which transactional ids and group members use an endpoint."""

from contextlib import closing

from harness.cluster import Cluster
from harness.common.waiting import wait_for
from harness.model.vocabulary import Isolation
from harness.witness.request_log import ObservedClientIds
from tests.support.conformance.means import (
    ENDPOINT,
    GROUP,
    ONLY_USER,
    SMALL,
    TIMEOUT_S,
    ClusterUser,
    make_consumer,
    transactional_producer,
)


def check_client_ids_of_an_endpoint_are_recorded(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    """A group member and a transactional producer, both of which connect through the endpoint."""
    group, own = user.name(GROUP), user.name("checks-requests")
    producer = transactional_producer(cluster, own)
    with closing(make_consumer(cluster, Isolation.READ_COMMITTED, group)) as member:
        member.subscribe([user.name(SMALL)])
        wait_for(lambda: member.poll(0.1) or member.assignment(), f"{group} to be joined", TIMEOUT_S)

        def observe() -> ObservedClientIds:
            producer.begin_transaction()
            producer.produce(user.name(SMALL), b"x")
            producer.commit_transaction(30)
            member.poll(0.1)
            return cluster.client_ids(ENDPOINT)

        cluster.record_requests(True)
        try:
            if user.shared:  # a user of a shared cluster cannot turn on the brokers' request logs
                assert observe() == ObservedClientIds()
                return
            members = wait_for(lambda: cluster.members(group), f"{group} to be stable", TIMEOUT_S)
            ids = frozenset((group, member_id) for member_id in members)
            wait_for(lambda: observe().members & ids, f"the member of {group} to be recorded", TIMEOUT_S)
            first = observe().transactional_ids[own]
            wait_for(
                lambda: observe().transactional_ids[own] > first, f"{own} to be recorded again", TIMEOUT_S
            )
            assert cluster.client_ids("w0") == ObservedClientIds()  # no client used this endpoint
        finally:
            cluster.record_requests(False)
