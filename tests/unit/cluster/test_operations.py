"""Requests that change a cluster: what is sent, and which answers are errors."""

from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsResponse,
    CreatePartitionsResponse,
    ElectLeadersResponse,
    IncrementalAlterConfigsResponse,
    UpdateFeaturesResponse,
)

from harness.cluster import PartitionView, admin, operations
from harness.cluster.admin import BrokerView, RequestRefused
from harness.cluster.questions import ClusterQueries
from harness.wire.protocol import Target, WireError, encode_request

REFUSED = 42


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that sets the broker's answer. It returns the list of the requests, each of which can be encoded."""

    def answer_with(response: Any) -> list[Any]:
        requests: list[Any] = []

        def answer(port: int, request: Any, timeout_s: float) -> Any:
            assert encode_request(request, 1)
            requests.append(request)
            return response

        monkeypatch.setattr(operations, "send_request", answer)
        return requests

    return answer_with


def test_replicas_are_asked_for_by_topic(broker: Any) -> None:
    kind: Any = AlterPartitionReassignmentsResponse
    requests = broker(kind(error_code=0, responses=[], version=0))
    operations.reassign(1, {("b", 0): (2, 3), ("a", 1): (1,), ("b", 2): (3, 1)})
    (request,) = requests
    sent = [(t.name, [(p.partition_index, p.replicas) for p in t.partitions]) for t in request.topics]
    assert sent == [("a", [(1, [1])]), ("b", [(0, [2, 3]), (2, [3, 1])])]


def test_a_partition_that_cannot_be_reassigned_is_refused(broker: Any) -> None:
    kind: Any = AlterPartitionReassignmentsResponse
    topic = kind.ReassignableTopicResponse
    partition = topic.ReassignablePartitionResponse(
        partition_index=1, error_code=REFUSED, error_message="no broker 9"
    )
    broker(kind(error_code=0, responses=[topic(name="a", partitions=[partition])], version=0))
    with pytest.raises(RequestRefused, match="reassigning a/1 was refused with error 42: no broker 9"):
        operations.reassign(1, {("a", 1): (9,)})


@pytest.mark.parametrize(
    "code", [0, operations.ELECTION_NOT_NEEDED, operations.PREFERRED_LEADER_NOT_AVAILABLE]
)
def test_a_leader_that_leads_already_or_is_not_in_sync_is_not_elected(broker: Any, code: int) -> None:
    requests = broker(_elected(code))
    operations.elect_preferred(1, [("a", 1)])
    assert requests[0].election_type == operations.PREFERRED


def test_an_election_that_is_refused_is_an_error(broker: Any) -> None:
    broker(_elected(REFUSED))
    with pytest.raises(RequestRefused, match=f"electing the leader of a/1 was refused with error {REFUSED}"):
        operations.elect_preferred(1, [("a", 1)])


def _elected(code: int) -> Any:
    kind: Any = ElectLeadersResponse
    result = kind.ReplicaElectionResult
    partition = result.PartitionResult(partition_id=1, error_code=code, error_message=None)
    return kind(
        error_code=0, replica_election_results=[result(topic="a", partition_result=[partition])], version=2
    )


def test_settings_of_a_topic_are_set_one_by_one(broker: Any) -> None:
    kind: Any = IncrementalAlterConfigsResponse
    done = kind.AlterConfigsResourceResponse(
        error_code=0, error_message=None, resource_type=2, resource_name="a"
    )
    requests = broker(kind(responses=[done], version=1))
    operations.alter_topic(1, "a", {"segment.ms": "1000"})
    (resource,) = requests[0].resources
    assert [(config.name, config.config_operation, config.value) for config in resource.configs] == [
        ("segment.ms", operations.SET, "1000")
    ]
    done.error_code, done.error_message = REFUSED, "no such setting"
    with pytest.raises(RequestRefused, match="changing the settings of a was refused with error 42: no such"):
        operations.alter_topic(1, "a", {"segment.m": "1000"})


def added(code: int, message: str | None = None) -> Any:
    kind: Any = CreatePartitionsResponse
    result = kind.CreatePartitionsTopicResult(name="a", error_code=code, error_message=message)
    return kind(throttle_time_ms=0, results=[result], version=2)


def test_the_request_for_partitions_has_their_new_number(broker: Any) -> None:
    requests = broker(added(0))
    operations.add_partitions(1, "a", 9)
    (topic,) = requests[0].topics
    assert (topic.name, topic.count, topic.assignments, requests[0].validate_only) == ("a", 9, None, False)


def test_partitions_that_the_controller_does_not_add_are_an_error(broker: Any) -> None:
    broker(added(REFUSED, "too many"))
    with pytest.raises(
        RequestRefused, match="number of partitions of a to 9 was refused with error 42: too many"
    ):
        operations.add_partitions(1, "a", 9)


def test_partitions_whose_request_had_no_answer_are_not_added_again(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = {number: PartitionView(1, (1,), (1,), "id") for number in range(6)}
    sent: list[int] = []

    def add(port: Target, topic: str, count: int) -> None:
        sent.append(count)
        partitions.update(dict.fromkeys(range(count), partitions[0]))
        raise WireError("the connection has ended")

    cluster = ClusterQueries({1: 9092}, {1: 9093}, lambda broker: True)
    monkeypatch.setattr(cluster, "controller", lambda: 1)
    monkeypatch.setattr(cluster, "describe", lambda topic: partitions)
    monkeypatch.setattr(operations, "add_partitions", add)
    cluster.add_partitions("a", 8)
    assert sent == [8]


def test_each_live_broker_is_asked_for_the_partitions_that_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    view = PartitionView(1, (1,), (1,), "id")

    def fetch_view(port: int, timeout_s: float, topics: Any) -> BrokerView:
        if port == 9092:
            raise WireError("no answer")
        return BrokerView((1, 2, 3), {topic: {0: view} for topic in topics}, {})

    monkeypatch.setattr(admin, "fetch_view", fetch_view)
    cluster = ClusterQueries({1: 9091, 2: 9092, 3: 9093}, {}, lambda broker: broker != 3)
    assert cluster.describe_by_broker("a") == {1: {0: view}, 2: {}}


def test_a_level_is_lowered_only_without_a_loss(broker: Any) -> None:
    requests = broker(UpdateFeaturesResponse(error_code=0, error_message=None, results=[], version=1))
    operations.update_features(1, {"b": 2}, {"a": 1, "b": 1})
    updates = requests[0].feature_updates
    assert [(update.feature, update.max_version_level, update.upgrade_type) for update in updates] == [
        ("a", 1, operations.UPGRADE),
        ("b", 1, operations.SAFE_DOWNGRADE),
    ]


def test_no_request_is_sent_if_no_level_changes(broker: Any) -> None:
    requests = broker(None)
    operations.update_features(1, {"a": 1}, {})
    assert requests == []


def test_a_level_that_kafka_does_not_permit_is_refused(broker: Any) -> None:
    kind: Any = UpdateFeaturesResponse
    result = kind.UpdatableFeatureResult(feature="a", error_code=REFUSED, error_message="level 9")
    broker(kind(error_code=0, error_message=None, results=[result], version=1))
    with pytest.raises(RequestRefused, match="changing a was refused with error 42: level 9"):
        operations.update_features(1, {}, {"a": 9})
