"""Requests whose responses contain addresses of brokers, in every version, and the bytes of the responses.

`python -P -m tests.support.real_answers VERSION FILE` records the responses of a version of Kafka for the tests.
"""

import json
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer.produce import ProduceRequest
from kafka.record import MemoryRecordsBuilder

from harness.cluster import ClusterSpec
from harness.cluster.admin import GROUP, fetch_view, find_coordinator
from harness.cluster.local import LocalCluster
from harness.cluster.questions import retry
from harness.environment.cache import cache_folder
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.processes.spawn import Supervisor
from harness.protocol.responses import HIDDEN_APIS
from harness.protocol.schemas import API_VERSIONS
from harness.wire.protocol import encode_request, send_request

TOPIC = "alone"
GROUPS = ["a", "b"]
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class SingleReplica:
    """A partition with one replica, and the port of a broker that does not have it."""

    topic_id: UUID
    other_port: int


def raw_response(port: int, request: Any) -> bytes:
    """Send a request and return the bytes of its response without the length field."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.sendall(encode_request(request, 77))
        stream = connection.makefile("rb")
        return stream.read(int.from_bytes(stream.read(4)))


def supported_versions(port: int) -> dict[int, tuple[int, int]]:
    """The minimum and maximum version of each API, by API key, that a broker supports."""
    response = send_request(port, ApiVersionsRequest(version=0), TIMEOUT_S)
    return {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}


def create_single_replica(bootstrap: str, ports: Sequence[int]) -> SingleReplica:
    """Create a topic with one partition and one replica. `ports` are those of all brokers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        future.result(TIMEOUT_S)
    for group in GROUPS:
        retry(partial(find_coordinator, ports[0], group, GROUP), "a coordinator", TIMEOUT_S)
    view = next(view for view in map(fetch_view, ports) if TOPIC in view.topics)
    partition = view.topics[TOPIC][0]
    others = (port for broker, (_, port) in view.addresses.items() if broker != partition.leader)
    return SingleReplica(UUID(partition.topic_id), next(others))


def requests(partition: SingleReplica) -> Iterator[tuple[int, Any]]:
    """Every request with the port that it is sent to; 0 is any broker."""
    for version in range(14):
        topics = [MetadataRequest.MetadataRequestTopic(name=TOPIC)]
        yield 0, MetadataRequest(topics=topics, allow_auto_topic_creation=False, version=version)
    for version in range(7):
        keys = {"coordinator_keys": GROUPS} if version >= 4 else {"key": GROUPS[0]}
        yield 0, FindCoordinatorRequest(key_type=0, version=version, **keys)
    for version in range(3):
        yield 0, DescribeClusterRequest(version=version)
    for version in range(5):
        software = {"client_software_name": "test", "client_software_version": "1"} if version >= 3 else {}
        yield 0, ApiVersionsRequest(version=version, **software)
    for version in range(16, 19):
        yield partition.other_port, _fetch(partition, version)
    for version in range(10, 14):
        yield partition.other_port, _produce(partition, version)


def _fetch(partition: SingleReplica, version: int) -> Any:
    kind: Any = FetchRequest.FetchTopic
    part = kind.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000, log_start_offset=-1)
    return FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[kind(topic_id=partition.topic_id, partitions=[part])],
        forgotten_topics_data=[],
        rack_id="",
        version=version,
    )


def _produce(partition: SingleReplica, version: int) -> Any:
    batch = MemoryRecordsBuilder(2, 0, 1000)
    batch.append(None, None, b"x")
    batch.close()
    kind: Any = ProduceRequest.TopicProduceData
    part = kind.PartitionProduceData(index=0, records=batch.buffer())
    name = {"topic_id": partition.topic_id} if version >= 13 else {"name": TOPIC}
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=5000,
        topic_data=[kind(partition_data=[part], **name)],
        version=version,
    )


def is_supported(request: Any, versions: dict[int, tuple[int, int]]) -> bool:
    """Whether the broker supports the version of a request, and a client behind the proxies may use it."""
    low, high = versions.get(request.API_KEY, (1, 0))
    if request.API_KEY == API_VERSIONS:
        return bool(request.version <= high)
    return request.API_KEY not in HIDDEN_APIS and bool(low <= request.version <= high)


def record_responses(kafka: str, file: Path) -> None:
    """Start a cluster of this version of Kafka, send every request, and write the responses to a file."""
    with tempfile.TemporaryDirectory() as folder, Supervisor() as supervisor:
        ready = prepare(kafka, "auto", "auto", cache_folder(), print)
        with PortBlock(ready.cache) as ports:
            spec = ClusterSpec(endpoints=("any",), kafka=kafka)
            with LocalCluster(spec, Path(folder), ready, supervisor, ports.take) as cluster:
                cluster.create_topics([], 60)
                all_ports = [int(server.rpartition(":")[2]) for server in cluster.bootstrap.split(",")]
                partition = create_single_replica(cluster.bootstrap, all_ports)
                versions = supported_versions(all_ports[0])
                responses = [
                    {
                        "key": request.API_KEY,
                        "version": request.version,
                        "answer": raw_response(port or all_ports[0], request).hex(),
                    }
                    for port, request in requests(partition)
                    if is_supported(request, versions)
                ]
    file.write_text("[\n" + ",\n".join(map(json.dumps, responses)) + "\n]\n")


if __name__ == "__main__":
    record_responses(sys.argv[1], Path(sys.argv[2]))
