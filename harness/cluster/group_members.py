"""Who is in a group, of whichever protocol: classic, consumer (KIP-848) or streams (KIP-1071).

Each protocol has a request of its own, and a coordinator answers it for groups of that protocol alone. An older broker
does not know the newer ones, and ends the connection of whoever asks: so it is asked first what it knows.
"""

from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.metadata import ApiVersionsRequest

from harness.cluster.admin import ASK_TIMEOUT_S, NO_ERROR, RequestRefused
from harness.cluster.messages import ConsumerGroupDescribeRequest, StreamsGroupDescribeRequest
from harness.wire.protocol import KafkaConnection, Target, send_request

GROUP_NOT_FOUND = 69
NO_SUCH_GROUP = "Dead"
"""As the classic protocol calls a group that it does not know: there is none, or it is of another protocol."""
STABLE_STATES = ("Stable", "Empty", NO_SUCH_GROUP)
NEWER_REQUESTS: Any = (ConsumerGroupDescribeRequest, StreamsGroupDescribeRequest)


def stable_members(port: Target, group: str, timeout_s: float = ASK_TIMEOUT_S) -> tuple[str, ...] | None:
    """The ids of a group's members, as its coordinator has them; None while the group is not stable.

    Stable means in the newer protocols that every member has what was assigned to it. Raises `WireError`.
    """
    state, members = describe_group(port, group, timeout_s)
    return members if state in STABLE_STATES else None


def list_groups(port: Target, timeout_s: float = ASK_TIMEOUT_S) -> dict[str, str]:
    """The groups that a broker coordinates, of all protocols, each with its state. Raises `WireError`."""
    answer = send_request(port, ListGroupsRequest(states_filter=[], version=4), timeout_s)
    if answer.error_code != NO_ERROR:
        raise RequestRefused("listing the groups", answer.error_code)
    return {group.group_id: group.group_state for group in answer.groups}


def describe_group(port: Target, group: str, timeout_s: float = ASK_TIMEOUT_S) -> tuple[str, tuple[str, ...]]:
    """A group's state and the ids of its members, asked at its coordinator; Dead: it knows none of that name, or of a
    protocol that we do not ask in. Raises `WireError`.
    """
    with KafkaConnection(port, timeout_s) as coordinator:
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False, version=5)
        state, members = _told(coordinator.send_request(request, timeout_s), group)
        if state == NO_SUCH_GROUP:
            state, members = _of_a_newer_protocol(coordinator, group, timeout_s)
    return state, members


def _of_a_newer_protocol(
    coordinator: KafkaConnection, group: str, timeout_s: float
) -> tuple[str, tuple[str, ...]]:
    """Its state and its members, where it is of one that the broker knows."""
    known = {
        api.api_key for api in coordinator.send_request(ApiVersionsRequest(version=0), timeout_s).api_keys
    }
    for kind in NEWER_REQUESTS:
        if kind.API_KEY in known:
            request = kind(group_ids=[group], include_authorized_operations=False, version=0)
            state, members = _told(coordinator.send_request(request, timeout_s), group)
            if state != NO_SUCH_GROUP:
                return state, members
    return NO_SUCH_GROUP, ()


def _told(answer: Any, group: str) -> tuple[str, tuple[str, ...]]:
    """The state of the one group that was asked for, and its members' ids. Raises `RequestRefused`."""
    (told,) = answer.groups
    if told.error_code == GROUP_NOT_FOUND:
        return NO_SUCH_GROUP, ()
    if told.error_code != NO_ERROR:
        raise RequestRefused(f"describing the group {group}", told.error_code)
    return told.group_state, tuple(member.member_id for member in told.members)
