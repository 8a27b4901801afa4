"""The protocol proxy knows the clients on a link by their requests."""

from pathlib import Path

import pytest

from harness.common.wording import HARNESS_CLIENT_ID
from harness.protocol.observed_clients import LinkClients, ObservedClients, describe
from tests.support.protocol_link import LinkUnderTest, ProxyUnderTest


@pytest.fixture
def proxy(tmp_path: Path) -> ProxyUnderTest:
    return ProxyUnderTest(tmp_path)


@pytest.fixture
def link(proxy: ProxyUnderTest) -> LinkUnderTest:
    return proxy.link()


def observed(proxy: ProxyUnderTest, *links: LinkUnderTest) -> ObservedClients:
    return proxy.state.observed_clients([link.connection.link for link in links])


def test_the_ids_and_versions_of_requests_are_known_by_link(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    other = proxy.link()
    software = {"ClientSoftwareName": "librdkafka", "ClientSoftwareVersion": "2.16.1"}
    link.send(link.request("ApiVersions", 3, 1, software))
    link.send(link.request("SyncGroup", 3, 2, {"GroupId": "g", "MemberId": "a"}))
    link.send(link.end_txn(3) + link.end_txn(4, version=4) + link.produce(5))
    other.send(other.end_txn(1, own_id="shop-2") + other.produce(2, own_id=None))
    clients = observed(proxy, link)
    assert (clients.client_ids, clients.software) == (("client",), ("librdkafka 2.16.1",))
    assert clients.versions == {"ApiVersions": (3,), "EndTxn": (1, 4), "Produce": (10,), "SyncGroup": (3,)}
    assert clients.members == {"g": ("a",)} and clients.transactional_ids.keys() == {"shop-1"}
    assert observed(proxy, other).transactional_ids.keys() == {"shop-2"}
    assert observed(proxy, link, other).transactional_ids.keys() == {"shop-1", "shop-2"}


@pytest.mark.parametrize("api", ["EndTxn", "Produce"])
def test_the_time_of_an_id_is_that_of_its_last_request(
    api: str, proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    link.send(link.end_txn(1))
    first = observed(proxy, link).transactional_ids["shop-1"]
    link.send(link.produce(2) if api == "Produce" else link.end_txn(2))
    assert observed(proxy, link).transactional_ids["shop-1"] > first


def test_the_last_time_on_any_link_counts() -> None:
    links = [LinkClients(transactional_ids={"a": at_ns}) for at_ns in (1, 3, 2)]
    assert describe(links).transactional_ids == {"a": 3}


def test_a_member_without_an_id_and_requests_of_the_harness_do_not_count(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    link.send(link.request("SyncGroup", 3, 1, {"GroupId": "g", "MemberId": ""}))
    link.send(link.request("EndTxn", 3, 2, {"TransactionalId": "x", "ProducerId": 7, "ProducerEpoch": 0,
                                            "Committed": True}, HARNESS_CLIENT_ID))  # fmt: skip
    clients = observed(proxy, link)
    assert (
        clients.members == {} and clients.transactional_ids == {} and clients.versions == {"SyncGroup": (3,)}
    )


def test_a_link_without_a_request_has_no_clients(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    assert observed(proxy, link) == ObservedClients()


@pytest.mark.parametrize(("generation", "without"), [(-1, True), (0, False), (7, False)])
def test_offsets_that_are_sent_without_a_generation_are_known(
    generation: int, without: bool, proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    body = {"TransactionalId": "x", "GroupId": "g", "ProducerId": 7, "ProducerEpoch": 0, "Topics": []}
    link.send(link.request("TxnOffsetCommit", 3, 1, {**body, "GenerationIdOrMemberEpoch": generation}))
    assert observed(proxy, link).without_generation is without
    assert observed(proxy, link, proxy.link()).without_generation is without


def test_offsets_of_a_version_that_has_no_generation_are_without_one(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    body = {"TransactionalId": "x", "GroupId": "g", "ProducerId": 7, "ProducerEpoch": 0, "Topics": []}
    link.send(link.request("TxnOffsetCommit", 2, 1, body))
    assert observed(proxy, link).without_generation


def test_without_a_request_with_offsets_the_generation_is_not_known(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    link.send(link.end_txn(1))
    assert observed(proxy, link).without_generation is None
