"""Only the addresses in responses are replaced. The expected responses are encoded by kafka-python."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin.cluster import DescribeClusterResponse
from kafka.protocol.consumer.fetch import FetchResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer.produce import ProduceResponse

from harness.network.kafka_answers import (
    UNREACHABLE,
    AddressMap,
    UnreadableResponse,
    contains_addresses,
    rewrite_response,
)
from harness.network.kafka_apis import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    FETCH,
    FIND_COORDINATOR,
    HIDDEN_APIS,
    METADATA,
    PRODUCE,
    newest_version,
)

THEIRS = {0: ("b", 9092), 1: ("kafka-1.staging.example", 9092), 2: ("10.0.0.2", 40_000)}
OURS = {0: ("127.0.0.1", 20_001), 1: ("127.0.0.1", 20_002), 2: ("127.0.0.1", 20_003)}
LARGE = b"\x07" * 20_000  # its length needs more than one byte


def encode(response: Any, number: int = 77) -> bytes:
    response.with_header(number)
    return bytes(response.encode(header=True, framed=False))


def rewrite(key: int, version: int, response: bytes, ours: dict[int, tuple[str, int]] = OURS) -> bytes:
    return rewrite_response(key, version, response, AddressMap(ours))


def metadata(version: int, addresses: dict[int, tuple[str, int]]) -> bytes:
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=id_, host=host, port=port, rack="r" if id_ else None)
        for id_, (host, port) in addresses.items()
    ]
    topic = MetadataResponse.MetadataResponseTopic
    part = topic.MetadataResponsePartition(
        error_code=0, partition_index=3, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1], offline_replicas=[]
    )
    topics = [topic(error_code=0, name="orders", is_internal=False, partitions=[part])]
    return encode(
        MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=topics, version=version)
    )


def coordinator(version: int, addresses: dict[int, tuple[str, int]]) -> bytes:
    if version < 4:
        host, port = addresses[1]
        return encode(
            FindCoordinatorResponse(
                error_code=0, error_message="none", node_id=1, host=host, port=port, version=version
            )
        )
    kind = FindCoordinatorResponse.Coordinator
    coordinators = [
        kind(key=f"k{id_}", node_id=id_, host=host, port=port, error_code=0, error_message=None)
        for id_, (host, port) in addresses.items()
    ]
    coordinators.append(
        kind(key="lost", node_id=-1, host="", port=-1, error_code=15, error_message="not now")
    )
    return encode(FindCoordinatorResponse(coordinators=coordinators, version=version))


def cluster(version: int, addresses: dict[int, tuple[str, int]]) -> bytes:
    kind = DescribeClusterResponse.DescribeClusterBroker
    brokers = [
        kind(broker_id=id_, host=host, port=port, rack=None) for id_, (host, port) in addresses.items()
    ]
    fields = {
        "error_code": 0,
        "error_message": None,
        "cluster_id": "c",
        "controller_id": 2,
        "brokers": brokers,
    }
    return encode(DescribeClusterResponse(version=version, **fields))


def produce(version: int, addresses: dict[int, tuple[str, int]], *, moved: bool = True) -> bytes:
    topic = ProduceResponse.TopicProduceResponse
    part = topic.PartitionProduceResponse
    record_error = part.BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="bad")
    parts = [
        part(index=0, error_code=6, base_offset=-1, record_errors=[record_error], error_message="moved"),
        part(index=1, error_code=0, base_offset=12, record_errors=[], error_message=None),
    ]
    if moved:
        parts[0].tags = {"current_leader"}
        parts[0].current_leader = part.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
    name = {"name": "orders"} if version < 13 else {}
    fields = {"responses": [topic(partition_responses=parts, **name)], "throttle_time_ms": 5}
    if moved:
        kind = ProduceResponse.NodeEndpoint
        fields["node_endpoints"] = [
            kind(node_id=i, host=h, port=p, rack=None) for i, (h, p) in addresses.items()
        ]
    return encode(ProduceResponse(version=version, **fields))


def fetch(version: int, addresses: dict[int, tuple[str, int]], *, moved: bool = True) -> bytes:
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData
    aborted = part.AbortedTransaction(producer_id=5, first_offset=6)
    parts = [
        part(partition_index=0, error_code=6, high_watermark=-1, aborted_transactions=None, records=None),
        part(
            partition_index=1, error_code=0, high_watermark=9, aborted_transactions=[aborted], records=LARGE
        ),
    ]
    fields: dict[str, Any] = {"session_id": 4, "responses": [topic(partitions=parts)]}
    if moved:
        kind = FetchResponse.NodeEndpoint
        fields["node_endpoints"] = [
            kind(node_id=i, host=h, port=p, rack="r") for i, (h, p) in addresses.items()
        ]
    return encode(FetchResponse(version=version, **fields))


CASES = [
    *((METADATA, version, metadata) for version in range(14)),
    *((FIND_COORDINATOR, version, coordinator) for version in range(7)),
    *((DESCRIBE_CLUSTER, version, cluster) for version in range(3)),
    *((PRODUCE, version, produce) for version in range(10, 14)),
    *((FETCH, version, fetch) for version in range(16, 19)),
]


@pytest.mark.parametrize(("key", "version", "make_response"), CASES)
def test_a_rewritten_response_equals_one_encoded_with_the_new_addresses(
    key: int, version: int, make_response: Any
) -> None:
    assert make_response(version, THEIRS) != make_response(version, OURS)
    assert rewrite(key, version, make_response(version, THEIRS)) == make_response(version, OURS)
    assert rewrite(key, version, make_response(version, OURS)) == make_response(version, OURS)
    assert contains_addresses(key, version)


def test_the_cases_include_the_newest_version_of_each_api() -> None:
    assert {key: max(v for k, v, _ in CASES if k == key) for key, _, _ in CASES} == {
        key: newest_version(key) for key in (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER, PRODUCE, FETCH)
    }


@pytest.mark.parametrize("make_response", [produce, fetch])
def test_a_response_without_addresses_is_not_changed(make_response: Any) -> None:
    key, version = (PRODUCE, 13) if make_response is produce else (FETCH, 18)
    response = make_response(version, THEIRS, moved=False)
    assert rewrite(key, version, response) == response
    assert not contains_addresses(PRODUCE, 9)
    assert not contains_addresses(FETCH, 15)


def test_a_broker_without_a_proxy_gets_an_address_where_nothing_listens() -> None:
    ours = {id_: OURS[id_] for id_ in (0, 1)}
    addresses = AddressMap(ours)
    assert rewrite_response(METADATA, 12, metadata(12, THEIRS), addresses) == metadata(
        12, {**ours, 2: UNREACHABLE}
    )
    assert addresses.unknown_brokers == {2}


@pytest.mark.parametrize(("key", "version", "make_response"), CASES)
def test_a_response_that_ends_too_early_does_not_leak_an_address(
    key: int, version: int, make_response: Any
) -> None:
    response = make_response(version, THEIRS)
    for size in range(4, min(len(response), 60)):
        try:
            rewritten = rewrite(key, version, response[:size])
        except UnreadableResponse:
            continue
        assert not any(host.encode() in rewritten for host, _ in THEIRS.values() if len(host) > 1), size


def test_a_response_of_an_unknown_version_is_refused() -> None:
    with pytest.raises(UnreadableResponse, match="version 14 of API 3 is not known"):
        rewrite(METADATA, 14, metadata(13, THEIRS))


def test_unknown_tagged_fields_are_not_changed() -> None:
    """A later version may have one more tagged field after the endpoints."""
    response = produce(13, THEIRS)
    count_position = response.rindex(b"\x01\x00", 0, response.index(THEIRS[0][0].encode() + b"\x00\x00"))
    assert response[count_position] == 1  # one tagged field
    with_field = response[:count_position] + b"\x02" + response[count_position + 1 :] + b"\x63\x03abc"
    assert rewrite(PRODUCE, 13, with_field).endswith(b"\x63\x03abc")
    assert THEIRS[1][0].encode() not in rewrite(PRODUCE, 13, with_field)


def api_versions(version: int, apis: dict[int, tuple[int, int]], error: int = 0) -> bytes:
    kind = ApiVersionsResponse.ApiVersion
    keys = [kind(api_key=key, min_version=low, max_version=high) for key, (low, high) in apis.items()]
    return encode(ApiVersionsResponse(error_code=error, api_keys=keys, throttle_time_ms=3, version=version))


@pytest.mark.parametrize("version", range(5))
def test_versions_that_the_proxy_cannot_read_are_not_offered(version: int) -> None:
    theirs = {0: (0, 14), 1: (4, 18), 3: (0, 99), 9: (1, 3), 55: (0, 2), 78: (1, 2), 500: (0, 1), 60: (3, 4)}
    ours = {0: (0, 13), 1: (4, 18), 3: (0, 13), 9: (1, 3), 55: (0, 1)}
    assert rewrite(API_VERSIONS, version, api_versions(version, theirs)) == api_versions(version, ours)


def test_an_unsupported_version_of_api_versions_is_answered_in_version_0() -> None:
    theirs, ours = {18: (0, 9), 78: (0, 1)}, {18: (0, 4)}
    assert rewrite(API_VERSIONS, 5, api_versions(0, theirs, error=35)) == api_versions(0, ours, error=35)


def real_responses() -> Iterator[tuple[str, int, int, bytes]]:
    for path in sorted(Path(__file__).with_name("answers").glob("*.json")):
        for entry in json.loads(path.read_text()):
            yield path.stem, entry["key"], entry["version"], bytes.fromhex(entry["answer"])


@pytest.mark.parametrize(("broker", "key", "version", "response"), list(real_responses()))
def test_all_addresses_in_responses_of_real_brokers_are_replaced(
    broker: str, key: int, version: int, response: bytes
) -> None:
    """The brokers advertised localhost and ports from 20000 on."""
    rewritten = rewrite(key, version, response, {id_: ("proxy.example", 7_000 + id_) for id_ in (1, 2, 3)})
    if key == API_VERSIONS:
        assert len(rewritten) <= len(response)
        return
    assert b"127.0.0.1" in response
    assert b"127.0.0.1" not in rewritten
    assert rewritten.count(b"proxy.example") == response.count(b"127.0.0.1")


def test_there_are_responses_of_brokers_of_two_versions() -> None:
    assert {(broker, key) for broker, key, _, _ in real_responses()} >= {
        (broker, key)
        for broker in ("kafka-3.9.2", "kafka-4.3.1")
        for key in (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER, API_VERSIONS, FETCH, PRODUCE)
    }


def test_versions_and_apis_that_cannot_be_rewritten_are_not_offered() -> None:
    assert all(newest_version(key) is None for key in HIDDEN_APIS)
    assert newest_version(DESCRIBE_QUORUM) == 1
    assert newest_version(-1) is None
    assert newest_version(93) is None
