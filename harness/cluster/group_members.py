"""The members of a group of any protocol: classic, consumer (KIP-848) or streams (KIP-1071).

Each protocol has its own request, which a coordinator answers only for groups of that protocol. A broker closes the
connection when it gets a request that it does not know. So an ApiVersions request is sent before a newer request.
"""

from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.protocol.metadata import ApiVersionsRequest

from harness.cluster.admin import NO_ERROR, REQUEST_TIMEOUT_S, RequestRefused
from harness.cluster.messages import ConsumerGroupDescribeRequest, StreamsGroupDescribeRequest
from harness.model.pipeline import TopicPartition
from harness.wire.protocol import KafkaConnection, Target, send_request

GROUP_NOT_FOUND = 69
NO_SUCH_GROUP = "Dead"
"""The state that a coordinator reports in the classic protocol if the group does not exist or has another protocol."""
STABLE_STATES = ("Stable", "Empty", NO_SUCH_GROUP)
NEWER_REQUESTS: Any = (ConsumerGroupDescribeRequest, StreamsGroupDescribeRequest)


def stable_members(port: Target, group: str, timeout_s: float = REQUEST_TIMEOUT_S) -> tuple[str, ...] | None:
    """Ask a group's coordinator for the ids of its members. None while the group is not stable.

    In the newer protocols, stable means that every member has the partitions assigned to it. Raises `WireError`.
    """
    state, members = describe_group(port, group, timeout_s)
    return members if state in STABLE_STATES else None


def list_groups(port: Target, timeout_s: float = REQUEST_TIMEOUT_S) -> dict[str, str]:
    """Return the state of every group that a broker coordinates, of all protocols. Raises `WireError`."""
    answer = send_request(port, ListGroupsRequest(states_filter=[], version=4), timeout_s)
    if answer.error_code != NO_ERROR:
        raise RequestRefused("listing the groups", answer.error_code)
    return {group.group_id: group.group_state for group in answer.groups}


def describe_group(
    port: Target, group: str, timeout_s: float = REQUEST_TIMEOUT_S
) -> tuple[str, tuple[str, ...]]:
    """Ask a group's coordinator for its state and the ids of its members. Raises `WireError`.

    The state is `NO_SUCH_GROUP` if the group does not exist, or has a protocol that this module does not know.
    """
    description = _describe(port, group, timeout_s)
    if description is None:
        return NO_SUCH_GROUP, ()
    return description.group_state, tuple(member.member_id for member in description.members)


def assigned_partitions(
    port: Target, group: str, timeout_s: float = REQUEST_TIMEOUT_S
) -> frozenset[TopicPartition] | None:
    """Ask a group's coordinator which partitions its members have been assigned. Raises `WireError`.

    Empty if the group never had members: its consumers choose their partitions themselves, and only commit offsets.
    None if this is not known: the group rebalances, all of its members have left, its members have tasks (streams
    protocol), or this module does not know its protocol.
    """
    description = _describe(port, group, timeout_s)
    if description is None or description.group_state not in ("Stable", "Empty"):
        return None
    if not description.members:
        return frozenset() if getattr(description, "protocol_type", None) == "" else None
    assigned: set[TopicPartition] = set()
    for member in description.members:
        if hasattr(member, "member_assignment"):
            if not member.member_assignment:
                continue  # its leader has assigned it nothing
            decoded = ConsumerProtocolAssignment.decode(member.member_assignment)
            assigned |= {
                (each.topic, number) for each in decoded.assigned_partitions for number in each.partitions
            }
        elif hasattr(member.assignment, "topic_partitions"):
            of_member = member.assignment.topic_partitions
            assigned |= {(each.topic_name, number) for each in of_member for number in each.partitions}
        else:
            return None
    return frozenset(assigned)


def _describe(port: Target, group: str, timeout_s: float) -> Any | None:
    """Return the coordinator's description of a group. None if it knows no such group of these protocols."""
    with KafkaConnection(port, timeout_s) as coordinator:
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False, version=5)
        description = _read_group(coordinator.send_request(request, timeout_s), group)
        if description is None:
            description = _describe_by_newer_protocols(coordinator, group, timeout_s)
    return description


def _describe_by_newer_protocols(coordinator: KafkaConnection, group: str, timeout_s: float) -> Any | None:
    supported = {
        api.api_key for api in coordinator.send_request(ApiVersionsRequest(version=0), timeout_s).api_keys
    }
    for kind in NEWER_REQUESTS:
        if kind.API_KEY in supported:
            request = kind(group_ids=[group], include_authorized_operations=False, version=0)
            description = _read_group(coordinator.send_request(request, timeout_s), group)
            if description is not None:
                return description
    return None


def _read_group(answer: Any, group: str) -> Any | None:
    (description,) = answer.groups
    if description.error_code == GROUP_NOT_FOUND:
        return None
    if description.error_code != NO_ERROR:
        raise RequestRefused(f"describing the group {group}", description.error_code)
    return None if description.group_state == NO_SUCH_GROUP else description
