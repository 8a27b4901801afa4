"""The members of a group are asked in its protocol, and only if the broker supports the request."""

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.protocol.admin.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from harness.cluster.admin import RequestRefused, assigned_partitions, list_groups, stable_members
from harness.cluster.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from harness.wire.protocol import WireError

CLASSIC, CONSUMER = DescribeGroupsRequest.API_KEY, ConsumerGroupDescribeRequest.API_KEY
STREAMS, VERSIONS = StreamsGroupDescribeRequest.API_KEY, ApiVersionsRequest.API_KEY
LIST = ListGroupsRequest.API_KEY
NOT_FOUND, NOT_COORDINATOR = 69, 16


@contextmanager
def coordinator(answers: Mapping[int, Any]) -> Iterator[tuple[int, list[int]]]:
    """Yield the port of a coordinator, and the API keys of the requests that it got on its one connection.

    It answers by API key, and closes the connection after a request of another API.
    """
    requests: list[int] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                request = stream.read(int.from_bytes(size))
                requests.append(int.from_bytes(request[:2]))
                answer = answers.get(requests[-1])
                if answer is None:
                    return
                answer.with_header(int.from_bytes(request[4:8]))
                connection.sendall(answer.encode(header=True, framed=True))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1], requests
        thread.join(5)


def classic(state: str, *members: str, error: int = 0) -> Any:
    kind: Any = DescribeGroupsResponse.DescribedGroup
    descriptions = [kind.DescribedGroupMember(member_id=member) for member in members]
    group = kind(error_code=error, group_id="g", group_state=state, members=descriptions)
    return DescribeGroupsResponse(groups=[group], version=5)


def newer(answer: Any, state: str, members: Sequence[str], error: int) -> Any:
    kind = answer.DescribedGroup
    empty = kind.Member.Assignment()
    descriptions = [
        kind.Member(member_id=member, assignment=empty, target_assignment=empty) for member in members
    ]
    group = kind(error_code=error, group_id="g", group_state=state, members=descriptions)
    return answer(groups=[group], version=0)


def consumer(state: str, *members: str, error: int = 0) -> Any:
    return newer(ConsumerGroupDescribeResponse, state, members, error)


def streams(state: str, *members: str, error: int = 0) -> Any:
    return newer(StreamsGroupDescribeResponse, state, members, error)


def supported(*apis: int) -> Any:
    kind: Any = ApiVersionsResponse.ApiVersion
    keys = [kind(api_key=api, min_version=0, max_version=1) for api in apis]
    return ApiVersionsResponse(error_code=0, api_keys=keys, version=0)


@pytest.mark.parametrize(
    ("answer", "members"),
    [
        (classic("Stable", "a", "b"), ("a", "b")),
        (classic("Empty"), ()),
        (classic("PreparingRebalance", "a"), None),
        (classic("CompletingRebalance", "a"), None),
    ],
)
def test_one_request_is_enough_for_a_classic_group(answer: Any, members: Sequence[str] | None) -> None:
    with coordinator({CLASSIC: answer}) as (port, requests):
        assert stable_members(port, "g") == members
        assert requests == [CLASSIC]


@pytest.mark.parametrize(
    ("state", "members"),
    [("Stable", ("a", "b")), ("Empty", ("a", "b")), ("Assigning", None), ("Reconciling", None)],
)
def test_a_group_of_a_newer_protocol_is_stable_after_it_has_reconciled(
    state: str, members: Sequence[str] | None
) -> None:
    answers = {CLASSIC: classic("Dead"), VERSIONS: supported(CLASSIC, CONSUMER, STREAMS)}
    with coordinator({**answers, CONSUMER: consumer(state, "a", "b")}) as (port, _):
        assert stable_members(port, "g") == members
    of_streams = {CONSUMER: consumer("", error=NOT_FOUND), STREAMS: streams(state, "a", "b")}
    with coordinator({**answers, **of_streams}) as (port, requests):
        assert stable_members(port, "g") == members
        assert requests == [CLASSIC, VERSIONS, CONSUMER, STREAMS]


def test_a_streams_group_without_its_topics_is_not_stable() -> None:
    answers = {CLASSIC: classic("Dead"), VERSIONS: supported(STREAMS), STREAMS: streams("NotReady", "a")}
    with coordinator(answers) as (port, _):
        assert stable_members(port, "g") is None


def test_a_newer_request_is_not_sent_to_a_broker_that_does_not_support_it() -> None:
    with coordinator({CLASSIC: classic("Dead"), VERSIONS: supported(CLASSIC)}) as (port, requests):
        assert stable_members(port, "g") == ()
        assert requests == [CLASSIC, VERSIONS]


def test_a_group_that_does_not_exist_has_no_members() -> None:
    missing = {CONSUMER: consumer("", error=NOT_FOUND), STREAMS: streams("", error=NOT_FOUND)}
    with coordinator({CLASSIC: classic("Dead"), VERSIONS: supported(CONSUMER, STREAMS), **missing}) as (
        port,
        _,
    ):
        assert stable_members(port, "g") == ()


def test_the_partitions_of_classic_members_are_decoded() -> None:
    kind: Any = DescribeGroupsResponse.DescribedGroup
    of_topic = ConsumerProtocolAssignment.TopicPartition(topic="in", partitions=[0, 3])
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[of_topic], user_data=None, version=0
    ).encode()
    members = [
        kind.DescribedGroupMember(member_id="a", member_assignment=assignment),
        kind.DescribedGroupMember(member_id="b", member_assignment=b""),
    ]
    group = kind(group_id="g", group_state="Stable", members=members)
    with coordinator({CLASSIC: DescribeGroupsResponse(groups=[group], version=5)}) as (port, _):
        assert assigned_partitions(port, "g") == {("in", 0), ("in", 3)}


def test_the_partitions_of_members_of_the_newer_protocols_are_known_for_consumers_only() -> None:
    answers = {CLASSIC: classic("Dead"), VERSIONS: supported(CONSUMER, STREAMS)}
    of_consumers = consumer("Stable", "a")
    kind = ConsumerGroupDescribeResponse.DescribedGroup.Member
    assignment = kind.Assignment(
        topic_partitions=[
            kind.Assignment.TopicPartitions(
                topic_id="00000000-0000-0000-0000-000000000000", topic_name="in", partitions=[2]
            )
        ]
    )
    of_consumers.groups[0].members[0].assignment = assignment
    with coordinator({**answers, CONSUMER: of_consumers}) as (port, _):
        assert assigned_partitions(port, "g") == {("in", 2)}
    missing = {CONSUMER: consumer("", error=NOT_FOUND)}
    with coordinator({**answers, **missing, STREAMS: streams("Stable", "a")}) as (port, _):
        assert assigned_partitions(port, "g") is None


@pytest.mark.parametrize("protocol", ["", "consumer"])
def test_only_a_group_that_never_had_members_has_certainly_no_partition(protocol: str) -> None:
    answer = classic("Empty")
    answer.groups[0].protocol_type = protocol
    with coordinator({CLASSIC: answer}) as (port, _):
        assert assigned_partitions(port, "g") == (None if protocol else frozenset())


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_the_partitions_of_a_group_that_rebalances_are_not_known(state: str) -> None:
    with coordinator({CLASSIC: classic(state, "a")}) as (port, _):
        assert assigned_partitions(port, "g") is None


def test_the_partitions_of_a_group_of_an_unknown_protocol_are_not_known() -> None:
    with coordinator({CLASSIC: classic("Dead"), VERSIONS: supported(CLASSIC)}) as (port, _):
        assert assigned_partitions(port, "g") is None
    answers = {CLASSIC: classic("Dead"), VERSIONS: supported(CONSUMER), CONSUMER: consumer("Empty")}
    with coordinator(answers) as (port, _):
        assert assigned_partitions(port, "g") is None


def test_a_broker_lists_its_groups_with_their_states() -> None:
    kind: Any = ListGroupsResponse.ListedGroup
    groups = [
        kind(group_id="g", protocol_type="consumer", group_state="Stable"),
        kind(group_id="h", group_state="Empty"),
    ]
    with coordinator({LIST: ListGroupsResponse(error_code=0, groups=groups, version=4)}) as (port, _):
        assert list_groups(port) == {"g": "Stable", "h": "Empty"}
    loading = ListGroupsResponse(error_code=NOT_COORDINATOR, groups=[], version=4)
    with coordinator({LIST: loading}) as (port, _), pytest.raises(RequestRefused):
        list_groups(port)


def test_a_refusal_is_an_error() -> None:
    with (
        coordinator({CLASSIC: classic("", error=NOT_COORDINATOR)}) as (port, _),
        pytest.raises(RequestRefused),
    ):
        stable_members(port, "g")
    answers = {
        CLASSIC: classic("Dead"),
        VERSIONS: supported(CONSUMER),
        CONSUMER: consumer("", error=NOT_COORDINATOR),
    }
    with coordinator(answers) as (port, _), pytest.raises(RequestRefused):
        stable_members(port, "g")
    with coordinator({}) as (port, _), pytest.raises(WireError):
        stable_members(port, "g")
