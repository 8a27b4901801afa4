"""The rules of the cluster interface, checked on a real cluster of every kind and version, according to its abilities.

To select one: `pytest tests/chaos/conformance -k local-4.3.1`. The suite includes every kind in
`harness.cluster.kinds.registry`.
"""

from collections.abc import Iterator

import pytest

from harness.network import Cut
from tests.support.cluster_kinds import Subject, Version, every
from tests.support.conformance import brokers, links, means, requests, told, witness
from tests.support.needs import lacking

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=every(), ids=str)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    version: Version = request.param
    if why := version.missing:
        lacking(version.kind, why)
    with version.opened(tmp_path_factory.mktemp(version.kind)) as opened:
        yield opened


def test_every_broker_is_registered(subject: Subject) -> None:
    told.check_every_broker_is_registered(subject.cluster, subject.footing)


def test_topics_are_in_sync_when_they_are_created(subject: Subject) -> None:
    told.check_topics_are_in_sync_when_they_are_created(subject.cluster, subject.footing)


def test_a_transaction_is_read_whole_or_not_at_all(subject: Subject) -> None:
    told.check_transactions_are_read_whole_or_not_at_all(subject.cluster, subject.footing)


def test_coordinators_are_those_that_the_brokers_name(subject: Subject) -> None:
    told.check_coordinators_are_those_that_the_brokers_name(subject.cluster, subject.footing)


def test_offsets_and_transactions_are_reported(subject: Subject) -> None:
    told.check_offsets_are_told(subject.cluster, subject.footing)


def test_features_and_settings_are_reported(subject: Subject) -> None:
    told.check_features_and_settings_are_told(subject.cluster, subject.footing)


def test_requests_are_recorded_until_the_recording_ends(subject: Subject) -> None:
    told.check_requests_are_recorded_and_then_no_more(subject.cluster, subject.footing)


def test_the_clients_of_an_endpoint_are_found_by_their_requests(subject: Subject) -> None:
    requests.check_who_speaks_over_a_endpoint_is_heard(subject.cluster, subject.footing)


def test_clients_connect_only_to_the_listeners_of_their_endpoint(subject: Subject) -> None:
    told.check_clients_find_no_way_round(subject.cluster, subject.footing)


@pytest.mark.parametrize("check", brokers.OF_BROKERS, ids=lambda check: check.name)
def test_brokers_are_stopped_and_start_again(subject: Subject, check: brokers.OfBrokers) -> None:
    cluster = subject.cluster
    if check.needs not in cluster.abilities:
        brokers.check_brokers_are_not_to_be_struck(cluster, check.needs)
        return
    with means.load(cluster, subject.footing):
        check(cluster, subject.footing)
        cluster.await_in_sync(means.SYNC_TIMEOUT_S)


def test_a_clients_link_is_cut_and_healed(subject: Subject) -> None:
    if Cut not in subject.cluster.abilities:
        links.check_links_are_not_to_be_struck(subject.cluster)
        return
    links.check_bytes_are_counted(subject.cluster, subject.footing)
    links.check_a_cut_client_link(subject.cluster, subject.footing)
    links.check_lost_answers(subject.cluster, subject.footing)


def test_a_broker_is_cut_off_from_its_peers_and_healed(subject: Subject) -> None:
    if Cut not in subject.cluster.abilities or not links.peer_links(subject.cluster):
        return  # the test before this one checks that this is correct
    links.check_a_broker_that_is_cut_off(subject.cluster, subject.footing)


def test_the_witness_has_every_batch_that_a_consumer_reads(subject: Subject) -> None:
    witness.check_the_witness(subject.cluster, subject.footing, subject.folder)


def test_a_closed_cluster_leaves_nothing_behind(subject: Subject) -> None:
    subject.close()
    assert subject.left() == []
