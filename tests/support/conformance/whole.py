"""The conformance suite of a cluster with one user, in one call."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from harness.cluster import Cluster
from tests.support.conformance import brokers, clients, queries
from tests.support.conformance.means import SYNC_TIMEOUT_S, write_load


def check_cluster(make: Callable[[], AbstractContextManager[Cluster]]) -> None:
    """Start a cluster and run the checks. Every check leaves the cluster as it was before."""
    with make() as cluster:
        queries.check_every_broker_is_registered(cluster)
        queries.check_topics_are_in_sync_when_they_are_created(cluster)
        queries.check_coordinators_agree_with_the_brokers(cluster)
        queries.check_offsets_and_transactions_are_described(cluster)
        clients.check_clients_are_observed(cluster)
        for check in brokers.BROKER_CHECKS:
            with write_load(cluster):
                check(cluster)
                cluster.await_in_sync(SYNC_TIMEOUT_S)
