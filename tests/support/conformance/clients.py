"""Checks that the protocol proxy knows the clients on the links that pass through it."""

from contextlib import closing

from harness.cluster import Cluster
from harness.common.waiting import wait_for
from harness.model.vocabulary import Isolation
from harness.network import ApplyRule, client_links_by_broker
from harness.protocol.observed_clients import ObservedClients
from tests.support.conformance.means import (
    DECODED_ENDPOINT,
    ENDPOINT,
    GROUP,
    ONLY_USER,
    SMALL,
    TIMEOUT_S,
    ClusterUser,
    make_consumer,
    transactional_producer,
)


def check_clients_are_observed(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    """A group member and a transactional producer connect through an endpoint with the protocol proxy."""
    network = cluster.network
    if ApplyRule not in cluster.abilities:
        assert network.observed_clients(network.links) is None
        return
    links = client_links_by_broker(DECODED_ENDPOINT, network.links).values()
    without_proxy = client_links_by_broker(ENDPOINT, network.links).values()
    group, own_id = user.name(GROUP), user.name("checks-clients")
    producer = transactional_producer(cluster, own_id, endpoint=DECODED_ENDPOINT)
    with closing(make_consumer(cluster, Isolation.READ_COMMITTED, group, DECODED_ENDPOINT)) as member:
        member.subscribe([user.name(SMALL)])
        wait_for(lambda: member.poll(0.1) or member.assignment(), f"{group} to be joined", TIMEOUT_S)

        def observe() -> ObservedClients:
            producer.begin_transaction()
            producer.produce(user.name(SMALL), b"x")
            producer.commit_transaction(30)
            observed = network.observed_clients(links)
            assert observed is not None
            return observed

        members = wait_for(lambda: cluster.members(group), f"{group} to be stable", TIMEOUT_S)
        first = observe()
        assert set(members) <= set(first.members[group])
        assert observe().transactional_ids[own_id] > first.transactional_ids[own_id]
    assert {"ApiVersions", "EndTxn", "Fetch", "JoinGroup", "Produce"} <= first.versions.keys()
    assert len(first.versions["EndTxn"]) == 1
    assert len(first.software) == 1 and first.client_ids
    assert network.observed_clients(without_proxy) is None
