"""The wall clocks of brokers, as the time stamps of records show them."""

import time
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from harness.cluster.admin import NO_ERROR, REQUEST_TIMEOUT_S, RequestRefused
from harness.cluster.topics import TOPIC_ALREADY_EXISTS
from harness.wire.protocol import Target, send_request

UNKNOWN_TOPIC_OR_PARTITION = 3
CLOCK_TOPIC = "fencepost-clock"
"""The prefix of the topics, one for each broker, in which the broker sets the time stamps of records."""


def ahead_s(port: Target, broker: int) -> float:
    """Return how far the wall clock of a broker is ahead of the clock of this machine.

    The broker writes a record into a topic with `message.timestamp.type=LogAppendTime`, of which it has the only
    replica. Raises `WireError`.
    """
    topic = f"{CLOCK_TOPIC}-{broker}"
    kind: Any = ProduceRequest.TopicProduceData
    records = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1024)
    records.append(timestamp=None, key=None, value=b"")
    records.close()
    partition = kind.PartitionProduceData(index=0, records=bytes(records.buffer()))
    request = ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
        topic_data=[kind(name=topic, partition_data=[partition])],
        version=9,
    )
    before_ms = time.time() * 1000
    answer = send_request(port, request, REQUEST_TIMEOUT_S).responses[0].partition_responses[0]
    if answer.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        # Not before each record: if the clock of a broker stands still, it forwards no requests to the controller.
        _create(port, topic, broker)
    if answer.error_code != NO_ERROR:
        raise RequestRefused(f"writing to {topic}", answer.error_code, answer.error_message)
    return float(answer.log_append_time_ms - (before_ms + time.time() * 1000) / 2) / 1000


def _create(port: Target, topic: str, broker: int) -> None:
    """Create the topic with its only replica on the broker. It is no error if it exists."""
    kind: Any = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        topics=[
            kind(
                name=topic,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[kind.CreatableReplicaAssignment(partition_index=0, broker_ids=[broker])],
                configs=[
                    kind.CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime"),
                    kind.CreatableTopicConfig(name="min.insync.replicas", value="1"),
                ],
            )
        ],
        timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
        validate_only=False,
        version=7,
    )
    (answer,) = send_request(port, request, REQUEST_TIMEOUT_S).topics
    if answer.error_code not in (NO_ERROR, TOPIC_ALREADY_EXISTS):
        raise RequestRefused(f"creating the topic {topic}", answer.error_code, answer.error_message)
