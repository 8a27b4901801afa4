"""A cluster tells by which names a client speaks over its endpoint, from what its brokers write down."""

from contextlib import closing

from harness.cluster import Cluster
from harness.common.waiting import wait_for
from harness.model.vocabulary import Isolation
from harness.witness.request_log import ObservedClientIds
from tests.support.conformance.means import ENDPOINT, GROUP, HOST, SMALL, WITHIN_S, Footing, producing, reader


def check_who_speaks_over_a_endpoint_is_heard(cluster: Cluster, footing: Footing = HOST) -> None:
    """A member of a group and a producer in transactions, both through the endpoint."""
    group, own = footing.name(GROUP), footing.name("checks-heard")
    producer = producing(cluster, own)
    with closing(reader(cluster, Isolation.READ_COMMITTED, group)) as member:
        member.subscribe([footing.name(SMALL)])
        wait_for(lambda: member.poll(0.1) or member.assignment(), f"{group} to be joined", WITHIN_S)

        def heard() -> ObservedClientIds:
            producer.begin_transaction()
            producer.produce(footing.name(SMALL), b"x")
            producer.commit_transaction(30)
            member.poll(0.1)
            return cluster.client_ids(ENDPOINT)

        cluster.record_requests(True)
        try:
            if footing.guest:  # the brokers' logs are not a guest's to turn on
                assert heard() == ObservedClientIds()
                return
            told = wait_for(lambda: cluster.members(group), f"{group} to be stable", WITHIN_S)
            ids = frozenset((group, one) for one in told)
            wait_for(lambda: heard().members & ids, f"the member of {group} to be heard", WITHIN_S)
            first = heard().transactional_ids[own]
            wait_for(lambda: heard().transactional_ids[own] > first, f"{own} to be heard again", WITHIN_S)
            assert cluster.client_ids("w0") == ObservedClientIds()  # nobody has spoken there
        finally:
            cluster.record_requests(False)
