"""Create topics, and delete topics and groups."""

from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest, DeleteGroupsRequest, DeleteTopicsRequest

from harness.cluster.admin import NO_ERROR, REQUEST_TIMEOUT_S, RequestRefused
from harness.common.errors import UsageError
from harness.model.pipeline import TopicSpec
from harness.wire.protocol import Target, send_request

UNKNOWN_TOPIC = 3
TOPIC_ALREADY_EXISTS = 36
GROUP_NOT_FOUND = 69
INVALID_REQUEST_CODES = (17, 37, 40)
"""Error codes for a topic that no broker would accept: invalid name, number of partitions or setting."""


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
