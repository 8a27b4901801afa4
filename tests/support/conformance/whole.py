"""All of what a cluster of one's own promises, in one call."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from harness.cluster import Cluster
from tests.support.conformance import brokers, told
from tests.support.conformance.means import SYNC_TIMEOUT_S, load


def check_cluster(make: Callable[[], AbstractContextManager[Cluster]]) -> None:
    """Start one, and hold it to its interface; every check leaves it as it found it."""
    with make() as cluster:
        told.check_every_broker_is_registered(cluster)
        told.check_topics_are_in_sync_when_they_are_created(cluster)
        told.check_coordinators_are_those_that_the_brokers_name(cluster)
        told.check_offsets_are_told(cluster)
        told.check_requests_are_recorded_and_then_no_more(cluster)
        for check in brokers.OF_BROKERS:
            with load(cluster):
                check(cluster)
                cluster.await_in_sync(SYNC_TIMEOUT_S)
