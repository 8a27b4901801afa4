"""Who is in a group is asked in the words of its protocol, and of brokers that know that alone."""

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
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from harness.cluster.admin import RequestRefused
from harness.cluster.group_members import list_groups, stable_members
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
    """One that gives these answers, by API, on one connection; with what it was asked. It ends the connection of
    whoever asks for another API.
    """
    asked: list[int] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                request = stream.read(int.from_bytes(size))
                asked.append(int.from_bytes(request[:2]))
                answer = answers.get(asked[-1])
                if answer is None:
                    return
                answer.with_header(int.from_bytes(request[4:8]))
                connection.sendall(answer.encode(header=True, framed=True))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1], asked
        thread.join(5)


def classic(state: str, *members: str, error: int = 0) -> Any:
    kind: Any = DescribeGroupsResponse.DescribedGroup
    there = [kind.DescribedGroupMember(member_id=one) for one in members]
    group = kind(error_code=error, group_id="g", group_state=state, members=there)
    return DescribeGroupsResponse(groups=[group], version=5)


def newer(answer: Any, state: str, members: Sequence[str], error: int) -> Any:
    kind = answer.DescribedGroup
    nothing = kind.Member.Assignment()
    there = [kind.Member(member_id=one, assignment=nothing, target_assignment=nothing) for one in members]
    group = kind(error_code=error, group_id="g", group_state=state, members=there)
    return answer(groups=[group], version=0)


def consumer(state: str, *members: str, error: int = 0) -> Any:
    return newer(ConsumerGroupDescribeResponse, state, members, error)


def streams(state: str, *members: str, error: int = 0) -> Any:
    return newer(StreamsGroupDescribeResponse, state, members, error)


def knows(*apis: int) -> Any:
    kind: Any = ApiVersionsResponse.ApiVersion
    keys = [kind(api_key=api, min_version=0, max_version=1) for api in apis]
    return ApiVersionsResponse(error_code=0, api_keys=keys, version=0)


@pytest.mark.parametrize(
    ("told", "members"),
    [
        (classic("Stable", "a", "b"), ("a", "b")),
        (classic("Empty"), ()),
        (classic("PreparingRebalance", "a"), None),
        (classic("CompletingRebalance", "a"), None),
    ],
)
def test_a_classic_group_is_asked_once(told: Any, members: Sequence[str] | None) -> None:
    with coordinator({CLASSIC: told}) as (port, asked):
        assert stable_members(port, "g") == members
        assert asked == [CLASSIC]


@pytest.mark.parametrize(
    ("told", "members"),
    [("Stable", ("a", "b")), ("Empty", ("a", "b")), ("Assigning", None), ("Reconciling", None)],
)
def test_a_group_of_a_newer_protocol_is_stable_once_everybody_has_what_is_his(
    told: str, members: Sequence[str] | None
) -> None:
    there = {CLASSIC: classic("Dead"), VERSIONS: knows(CLASSIC, CONSUMER, STREAMS)}
    with coordinator({**there, CONSUMER: consumer(told, "a", "b")}) as (port, _):
        assert stable_members(port, "g") == members
    of_streams = {CONSUMER: consumer("", error=NOT_FOUND), STREAMS: streams(told, "a", "b")}
    with coordinator({**there, **of_streams}) as (port, asked):
        assert stable_members(port, "g") == members
        assert asked == [CLASSIC, VERSIONS, CONSUMER, STREAMS]


def test_a_streams_group_without_its_topics_is_not_stable() -> None:
    there = {CLASSIC: classic("Dead"), VERSIONS: knows(STREAMS), STREAMS: streams("NotReady", "a")}
    with coordinator(there) as (port, _):
        assert stable_members(port, "g") is None


def test_a_broker_that_knows_no_newer_protocol_is_not_asked_for_one() -> None:
    with coordinator({CLASSIC: classic("Dead"), VERSIONS: knows(CLASSIC)}) as (port, asked):
        assert stable_members(port, "g") == ()
        assert asked == [CLASSIC, VERSIONS]


def test_a_group_that_nobody_knows_has_no_members() -> None:
    missing = {CONSUMER: consumer("", error=NOT_FOUND), STREAMS: streams("", error=NOT_FOUND)}
    with coordinator({CLASSIC: classic("Dead"), VERSIONS: knows(CONSUMER, STREAMS), **missing}) as (port, _):
        assert stable_members(port, "g") == ()


def test_a_broker_lists_its_groups_with_their_states() -> None:
    kind: Any = ListGroupsResponse.ListedGroup
    told = [
        kind(group_id="g", protocol_type="consumer", group_state="Stable"),
        kind(group_id="h", group_state="Empty"),
    ]
    with coordinator({LIST: ListGroupsResponse(error_code=0, groups=told, version=4)}) as (port, _):
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
    newer = {
        CLASSIC: classic("Dead"),
        VERSIONS: knows(CONSUMER),
        CONSUMER: consumer("", error=NOT_COORDINATOR),
    }
    with coordinator(newer) as (port, _), pytest.raises(RequestRefused):
        stable_members(port, "g")
    with coordinator({}) as (port, _), pytest.raises(WireError):
        stable_members(port, "g")
