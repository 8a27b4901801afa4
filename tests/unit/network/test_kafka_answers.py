"""The addresses in brokers' answers are replaced, and nothing else is: held against another encoder."""

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
LARGE = b"\x07" * 20_000  # longer than one byte of a length can say


def encoded(answer: Any, number: int = 77) -> bytes:
    answer.with_header(number)
    return bytes(answer.encode(header=True, framed=False))


def rewriting(key: int, version: int, answer: bytes, ours: dict[int, tuple[str, int]] = OURS) -> bytes:
    return rewrite_response(key, version, answer, AddressMap(ours))


def metadata(version: int, at: dict[int, tuple[str, int]]) -> bytes:
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=id_, host=host, port=port, rack="r" if id_ else None)
        for id_, (host, port) in at.items()
    ]
    topic = MetadataResponse.MetadataResponseTopic
    part = topic.MetadataResponsePartition(
        error_code=0, partition_index=3, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1], offline_replicas=[]
    )
    topics = [topic(error_code=0, name="orders", is_internal=False, partitions=[part])]
    return encoded(
        MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=topics, version=version)
    )


def coordinator(version: int, at: dict[int, tuple[str, int]]) -> bytes:
    if version < 4:
        host, port = at[1]
        return encoded(
            FindCoordinatorResponse(
                error_code=0, error_message="none", node_id=1, host=host, port=port, version=version
            )
        )
    one = FindCoordinatorResponse.Coordinator
    found = [
        one(key=f"k{id_}", node_id=id_, host=host, port=port, error_code=0, error_message=None)
        for id_, (host, port) in at.items()
    ]
    found.append(one(key="lost", node_id=-1, host="", port=-1, error_code=15, error_message="not now"))
    return encoded(FindCoordinatorResponse(coordinators=found, version=version))


def cluster(version: int, at: dict[int, tuple[str, int]]) -> bytes:
    one = DescribeClusterResponse.DescribeClusterBroker
    brokers = [one(broker_id=id_, host=host, port=port, rack=None) for id_, (host, port) in at.items()]
    told = {"error_code": 0, "error_message": None, "cluster_id": "c", "controller_id": 2, "brokers": brokers}
    return encoded(DescribeClusterResponse(version=version, **told))


def produced(version: int, at: dict[int, tuple[str, int]], *, moved: bool = True) -> bytes:
    topic = ProduceResponse.TopicProduceResponse
    part = topic.PartitionProduceResponse
    wrong = part.BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="bad")
    parts = [
        part(index=0, error_code=6, base_offset=-1, record_errors=[wrong], error_message="moved"),
        part(index=1, error_code=0, base_offset=12, record_errors=[], error_message=None),
    ]
    if moved:
        parts[0].tags = {"current_leader"}
        parts[0].current_leader = part.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
    name = {"name": "orders"} if version < 13 else {}
    told = {"responses": [topic(partition_responses=parts, **name)], "throttle_time_ms": 5}
    if moved:
        one = ProduceResponse.NodeEndpoint
        told["node_endpoints"] = [one(node_id=i, host=h, port=p, rack=None) for i, (h, p) in at.items()]
    return encoded(ProduceResponse(version=version, **told))


def fetched(version: int, at: dict[int, tuple[str, int]], *, moved: bool = True) -> bytes:
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData
    gone = part.AbortedTransaction(producer_id=5, first_offset=6)
    parts = [
        part(partition_index=0, error_code=6, high_watermark=-1, aborted_transactions=None, records=None),
        part(partition_index=1, error_code=0, high_watermark=9, aborted_transactions=[gone], records=LARGE),
    ]
    told: dict[str, Any] = {"session_id": 4, "responses": [topic(partitions=parts)]}
    if moved:
        one = FetchResponse.NodeEndpoint
        told["node_endpoints"] = [one(node_id=i, host=h, port=p, rack="r") for i, (h, p) in at.items()]
    return encoded(FetchResponse(version=version, **told))


CASES = [
    *((METADATA, version, metadata) for version in range(14)),
    *((FIND_COORDINATOR, version, coordinator) for version in range(7)),
    *((DESCRIBE_CLUSTER, version, cluster) for version in range(3)),
    *((PRODUCE, version, produced) for version in range(10, 14)),
    *((FETCH, version, fetched) for version in range(16, 19)),
]


@pytest.mark.parametrize(("key", "version", "written"), CASES)
def test_an_answer_is_as_if_the_broker_had_other_addresses(key: int, version: int, written: Any) -> None:
    assert written(version, THEIRS) != written(version, OURS)
    assert rewriting(key, version, written(version, THEIRS)) == written(version, OURS)
    assert rewriting(key, version, written(version, OURS)) == written(version, OURS)
    assert contains_addresses(key, version)


def test_every_version_that_may_be_spoken_is_tried_here() -> None:
    assert {key: max(v for k, v, _ in CASES if k == key) for key, _, _ in CASES} == {
        key: newest_version(key) for key in (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER, PRODUCE, FETCH)
    }


@pytest.mark.parametrize("written", [produced, fetched])
def test_an_answer_without_addresses_stays_as_it_is(written: Any) -> None:
    key, version = (PRODUCE, 13) if written is produced else (FETCH, 18)
    answer = written(version, THEIRS, moved=False)
    assert rewriting(key, version, answer) == answer
    assert not contains_addresses(PRODUCE, 9)
    assert not contains_addresses(FETCH, 15)


def test_a_broker_that_has_no_address_here_is_nowhere() -> None:
    ours = {id_: OURS[id_] for id_ in (0, 1)}
    addresses = AddressMap(ours)
    assert rewrite_response(METADATA, 12, metadata(12, THEIRS), addresses) == metadata(
        12, {**ours, 2: UNREACHABLE}
    )
    assert addresses.unknown_brokers == {2}


@pytest.mark.parametrize(("key", "version", "written"), CASES)
def test_an_answer_that_ends_too_early_is_not_passed_on(key: int, version: int, written: Any) -> None:
    answer = written(version, THEIRS)
    for size in range(4, min(len(answer), 60)):
        try:
            told = rewriting(key, version, answer[:size])
        except UnreadableResponse:
            continue
        assert not any(host.encode() in told for host, _ in THEIRS.values() if len(host) > 1), size


def test_a_version_that_nobody_knows_is_not_passed_on() -> None:
    with pytest.raises(UnreadableResponse, match="version 14 of API 3 is not known"):
        rewriting(METADATA, 14, metadata(13, THEIRS))


def test_tagged_fields_that_nobody_knows_stay() -> None:
    """One more behind the endpoints, as a later version may have it."""
    answer = produced(13, THEIRS)
    own = answer.rindex(b"\x01\x00", 0, answer.index(THEIRS[0][0].encode() + b"\x00\x00"))
    assert answer[own] == 1  # one tagged field
    more = answer[:own] + b"\x02" + answer[own + 1 :] + b"\x63\x03abc"
    assert rewriting(PRODUCE, 13, more).endswith(b"\x63\x03abc")
    assert THEIRS[1][0].encode() not in rewriting(PRODUCE, 13, more)


def spoken(version: int, apis: dict[int, tuple[int, int]], error: int = 0) -> bytes:
    kind = ApiVersionsResponse.ApiVersion
    keys = [kind(api_key=key, min_version=low, max_version=high) for key, (low, high) in apis.items()]
    return encoded(ApiVersionsResponse(error_code=error, api_keys=keys, throttle_time_ms=3, version=version))


@pytest.mark.parametrize("version", range(5))
def test_versions_that_cannot_be_read_here_are_not_offered(version: int) -> None:
    theirs = {0: (0, 14), 1: (4, 18), 3: (0, 99), 9: (1, 3), 55: (0, 2), 78: (1, 2), 500: (0, 1), 60: (3, 4)}
    ours = {0: (0, 13), 1: (4, 18), 3: (0, 13), 9: (1, 3), 55: (0, 1)}
    assert rewriting(API_VERSIONS, version, spoken(version, theirs)) == spoken(version, ours)


def test_a_version_of_the_question_that_a_broker_does_not_speak_is_answered_in_the_oldest_form() -> None:
    theirs, ours = {18: (0, 9), 78: (0, 1)}, {18: (0, 4)}
    assert rewriting(API_VERSIONS, 5, spoken(0, theirs, error=35)) == spoken(0, ours, error=35)


def recorded() -> Iterator[tuple[str, int, int, bytes]]:
    for path in sorted(Path(__file__).with_name("answers").glob("*.json")):
        for one in json.loads(path.read_text()):
            yield path.stem, one["key"], one["version"], bytes.fromhex(one["answer"])


@pytest.mark.parametrize(("broker", "key", "version", "answer"), list(recorded()))
def test_what_real_brokers_answered_is_read(broker: str, key: int, version: int, answer: bytes) -> None:
    """Recorded from brokers that call themselves localhost, ports 20000 and up."""
    told = rewriting(key, version, answer, {id_: ("proxy.example", 7_000 + id_) for id_ in (1, 2, 3)})
    if key == API_VERSIONS:
        assert len(told) <= len(answer)
        return
    assert b"127.0.0.1" in answer
    assert b"127.0.0.1" not in told
    assert told.count(b"proxy.example") == answer.count(b"127.0.0.1")


def test_brokers_of_several_versions_were_recorded() -> None:
    assert {(broker, key) for broker, key, _, _ in recorded()} >= {
        (broker, key)
        for broker in ("kafka-3.9.2", "kafka-4.3.1")
        for key in (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER, API_VERSIONS, FETCH, PRODUCE)
    }


def test_what_is_not_rewritten_is_not_spoken() -> None:
    assert all(newest_version(key) is None for key in HIDDEN_APIS)
    assert newest_version(DESCRIBE_QUORUM) == 1
    assert newest_version(-1) is None
    assert newest_version(93) is None
