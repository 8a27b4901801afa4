"""Admin requests that change a cluster: topics, groups, replicas, leaders and features.

A broker forwards each of them to the active controller. `harness.cluster.admin` has the requests that change nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)

from harness.cluster.admin import NO_ERROR, REQUEST_TIMEOUT_S, TOPIC_RESOURCE, RequestRefused
from harness.common.errors import UsageError
from harness.model.pipeline import TopicPartition, TopicSpec
from harness.wire.protocol import Target, send_request

UNKNOWN_TOPIC = 3
TOPIC_ALREADY_EXISTS = 36
GROUP_NOT_FOUND = 69
INVALID_REQUEST_CODES = (17, 37, 40)
"""Error codes for a topic that no broker would accept: invalid name, number of partitions or setting."""
TIMEOUT_S = 10.0
"""The controller answers only after it has written the change."""
PREFERRED = 0  # the election type: the first replica is to lead (KIP-460)
PREFERRED_LEADER_NOT_AVAILABLE, ELECTION_NOT_NEEDED = 80, 84
SET = 0  # the operation on a setting (KIP-339)
UPGRADE, SAFE_DOWNGRADE = 1, 2  # the directions of a change of a feature (KIP-584)


def create_topics(port: Target, topics: Sequence[TopicSpec], timeout_s: float) -> list[str]:
    """Create topics. Return the names of topics that exist already. They are not changed.

    Raises `UsageError` for a name or a setting that no broker would accept, and `RequestRefused` for other errors.
    """
    topic_type: Any = CreateTopicsRequest.CreatableTopic
    new_topics = [
        topic_type(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication,
            assignments=[],
            configs=[
                topic_type.CreatableTopicConfig(name=name, value=value)
                for name, value in topic.config.items()
            ],
        )
        for topic in topics
    ]
    request = CreateTopicsRequest(
        topics=new_topics, timeout_ms=int(timeout_s * 1000), validate_only=False, version=7
    )
    existing = []
    for answer in send_request(port, request, timeout_s).topics:
        if answer.error_code == TOPIC_ALREADY_EXISTS:
            existing.append(answer.name)
        elif answer.error_code in INVALID_REQUEST_CODES:
            reason = answer.error_message or f"error {answer.error_code}"
            raise UsageError(
                f"the topic {answer.name} cannot be created, because the broker refuses it: {reason}"
            )
        elif answer.error_code != NO_ERROR:
            raise RequestRefused(f"creating the topic {answer.name}", answer.error_code, answer.error_message)
    return existing


def delete_topics(port: Target, topics: Sequence[str], timeout_s: float) -> None:
    """Delete topics. A topic that does not exist is no error. Raises `RequestRefused`."""
    kind: Any = DeleteTopicsRequest.DeleteTopicState
    request = DeleteTopicsRequest(
        topics=[kind(name=name, topic_id=None) for name in topics],
        timeout_ms=int(timeout_s * 1000),
        version=6,
    )
    for answer in send_request(port, request, timeout_s).responses:
        if answer.error_code not in (NO_ERROR, UNKNOWN_TOPIC):
            raise RequestRefused(f"deleting the topic {answer.name}", answer.error_code, answer.error_message)


def delete_group(port: Target, group: str, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
    """Ask a group's coordinator to delete a group without members. Raises `RequestRefused`.

    A group that does not exist is no error.
    """
    (answer,) = send_request(port, DeleteGroupsRequest(groups_names=[group], version=2), timeout_s).results
    if answer.error_code not in (NO_ERROR, GROUP_NOT_FOUND):
        raise RequestRefused(f"deleting the group {group}", answer.error_code)


def reassign(port: Target, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Ask for these replicas of partitions (KIP-455). They are copied later. Raises `RequestRefused`."""
    kind: Any = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics = [
        kind(
            name=name,
            partitions=[
                kind.ReassignablePartition(partition_index=number, replicas=list(brokers))
                for (topic, number), brokers in replicas.items()
                if topic == name
            ],
        )
        for name in _topics_of(replicas)
    ]
    request = AlterPartitionReassignmentsRequest(timeout_ms=_timeout_ms(), topics=topics, version=0)
    answer = send_request(port, request, TIMEOUT_S)
    _require_no_error("reassigning partitions", answer)
    for topic in answer.responses:
        for partition in topic.partitions:
            _require_no_error(f"reassigning {topic.name}/{partition.partition_index}", partition)


def elect_preferred(port: Target, partitions: Collection[TopicPartition]) -> None:
    """Let the first replica of each partition lead it. A replica that is not in sync is not elected.

    Raises `RequestRefused`.
    """
    kind: Any = ElectLeadersRequest.TopicPartitions
    topics = [
        kind(topic=name, partitions=[number for topic, number in partitions if topic == name])
        for name in _topics_of(partitions)
    ]
    request = ElectLeadersRequest(
        election_type=PREFERRED, topic_partitions=topics, timeout_ms=_timeout_ms(), version=2
    )
    answer = send_request(port, request, TIMEOUT_S)
    _require_no_error("electing leaders", answer)
    for topic in answer.replica_election_results:
        for partition in topic.partition_result:
            if partition.error_code not in (ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE):
                _require_no_error(f"electing the leader of {topic.topic}/{partition.partition_id}", partition)


def alter_topic(port: Target, topic: str, settings: Mapping[str, str]) -> None:
    """Set settings of a topic, and keep its other settings. Raises `RequestRefused`."""
    kind: Any = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        kind.AlterableConfig(name=name, config_operation=SET, value=value) for name, value in settings.items()
    ]
    resource = kind(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False, version=1)
    (answer,) = send_request(port, request, TIMEOUT_S).responses
    _require_no_error(f"changing the settings of {topic}", answer)


def add_partitions(port: Target, topic: str, count: int) -> None:
    """Raise a topic's number of partitions to `count`. The controller places the new ones. Raises `RequestRefused`."""
    kind: Any = CreatePartitionsRequest.CreatePartitionsTopic
    topics = [kind(name=topic, count=count, assignments=None)]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=_timeout_ms(), validate_only=False, version=2)
    (answer,) = send_request(port, request, TIMEOUT_S).results
    _require_no_error(f"raising the number of partitions of {topic} to {count}", answer)


def update_features(port: Target, present: Mapping[str, int], levels: Mapping[str, int]) -> None:
    """Set the finalized levels of features, all or none. Raises `RequestRefused`.

    `present` has the levels before. Kafka refuses a lower level if the brokers would lose metadata.
    """
    if not levels:
        return
    kind: Any = UpdateFeaturesRequest.FeatureUpdateKey
    updates = [
        kind(
            feature=name,
            max_version_level=level,
            upgrade_type=UPGRADE if level > present.get(name, 0) else SAFE_DOWNGRADE,
        )
        for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(timeout_ms=_timeout_ms(), feature_updates=updates, version=1)
    answer = send_request(port, request, TIMEOUT_S)
    _require_no_error(f"changing {', '.join(levels)}", answer)
    for result in answer.results:
        _require_no_error(f"changing {result.feature}", result)


def _topics_of(partitions: Collection[TopicPartition]) -> list[str]:
    return sorted({topic for topic, _ in partitions})


def _timeout_ms() -> int:
    return int(TIMEOUT_S * 1000)


def _require_no_error(request: str, answer: Any) -> None:
    if answer.error_code != NO_ERROR:
        raise RequestRefused(request, answer.error_code, getattr(answer, "error_message", None))
