"""The rules of the cluster interface, checked on a real cluster of every kind and version, according to its abilities.

To select one: `pytest tests/chaos/conformance -k local-4.4.0`. The suite includes every kind in
`harness.cluster.kinds.registry`.
"""

from collections.abc import Iterator

import pytest

from harness.cluster import Ability
from harness.network import Cut
from tests.support.cluster_kinds import OpenedCluster, Version, every
from tests.support.conformance import brokers, clients, links, means, operations, queries, witness
from tests.support.needs import skip_or_fail

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=every(), ids=str)
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenedCluster]:
    version: Version = request.param
    if why := version.missing_requirement:
        skip_or_fail(version.kind, why)
    with version.open(tmp_path_factory.mktemp(version.kind)) as opened:
        yield opened


def test_every_broker_is_registered(subject: OpenedCluster) -> None:
    queries.check_every_broker_is_registered(subject.cluster, subject.user)


def test_topics_are_in_sync_when_they_are_created(subject: OpenedCluster) -> None:
    queries.check_topics_are_in_sync_when_they_are_created(subject.cluster, subject.user)


def test_a_transaction_is_read_whole_or_not_at_all(subject: OpenedCluster) -> None:
    queries.check_transactions_are_atomic(subject.cluster, subject.user)


def test_coordinators_are_those_that_the_brokers_name(subject: OpenedCluster) -> None:
    queries.check_coordinators_agree_with_the_brokers(subject.cluster, subject.user)


def test_offsets_and_transactions_are_reported(subject: OpenedCluster) -> None:
    queries.check_offsets_and_transactions_are_described(subject.cluster, subject.user)


def test_features_and_settings_are_reported(subject: OpenedCluster) -> None:
    queries.check_features_and_settings_are_described(subject.cluster, subject.user)


def test_the_clients_of_an_endpoint_are_known_by_their_requests(subject: OpenedCluster) -> None:
    clients.check_clients_are_observed(subject.cluster, subject.user)


def test_clients_connect_only_to_the_listeners_of_their_endpoint(subject: OpenedCluster) -> None:
    queries.check_clients_learn_only_their_endpoint(subject.cluster, subject.user)


@pytest.mark.parametrize("check", brokers.BROKER_CHECKS, ids=lambda check: check.name)
def test_brokers_are_stopped_and_start_again(subject: OpenedCluster, check: brokers.BrokerCheck) -> None:
    cluster = subject.cluster
    if check.needs not in cluster.abilities:
        brokers.check_cluster_offers_no_brokers(cluster, check.needs)
        return
    with means.write_load(cluster, subject.user):
        check(cluster, subject.user)
        cluster.await_in_sync(means.SYNC_TIMEOUT_S)


def test_partitions_settings_and_features_are_changed_and_changed_back(subject: OpenedCluster) -> None:
    if Ability.OPERATE in subject.cluster.abilities:
        operations.check_a_leader_moves(subject.cluster, subject.user)
        operations.check_settings_of_a_topic_change(subject.cluster, subject.user)
        operations.check_a_feature_changes(subject.cluster)


def test_partitions_are_added_to_a_topic(subject: OpenedCluster) -> None:
    operations.check_partitions_are_added(subject.cluster, subject.user)


def test_a_clients_link_is_cut_and_healed(subject: OpenedCluster) -> None:
    if Cut not in subject.cluster.abilities:
        links.check_cluster_offers_no_links(subject.cluster)
        return
    links.check_bytes_are_counted(subject.cluster, subject.user)
    links.check_a_cut_client_link(subject.cluster, subject.user)
    links.check_dropped_responses(subject.cluster, subject.user)


def test_a_broker_is_cut_off_from_its_peers_and_healed(subject: OpenedCluster) -> None:
    if Cut not in subject.cluster.abilities or not links.peer_links(subject.cluster):
        return  # the test before this one checks that this is correct
    links.check_a_broker_that_is_cut_off(subject.cluster, subject.user)


def test_the_witness_has_every_batch_that_a_consumer_reads(subject: OpenedCluster) -> None:
    witness.check_the_witness(subject.cluster, subject.user, subject.folder)


def test_a_closed_cluster_leaves_nothing_behind(subject: OpenedCluster) -> None:
    subject.close()
    assert subject.leftovers() == []
