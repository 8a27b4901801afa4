"""Admin requests to single brokers, on ports that no fault can cut.

Every request has a time-out. Brokers are asked in parallel, so that a broker that is killed or paused does not delay
the others.

Each group protocol (classic, consumer of KIP-848, streams of KIP-1071) has its own request, which a coordinator answers
only for groups of that protocol. A broker closes the connection when it gets a request that it does not know. So an
ApiVersions request is sent before a newer request.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeQuorumRequest,
)
from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from harness.cluster import PartitionView, TransactionView
from harness.cluster.messages import ConsumerGroupDescribeRequest, StreamsGroupDescribeRequest
from harness.model.pipeline import TopicPartition
from harness.wire.protocol import KafkaConnection, Target, WireError, send_request

REQUEST_TIMEOUT_S = 2.0
NO_ERROR = 0
NOT_CONTROLLER = 41
TRANSACTIONAL_ID_NOT_FOUND = 105
NO_BROKER = -1  # no leader, no coordinator
EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3  # asks for the record with the largest timestamp (KIP-734)
GROUP = 0
TRANSACTION = 1
INTERNAL = ("__consumer_offsets", "__transaction_state")
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4  # resource types of Kafka

T = TypeVar("T")
GROUP_NOT_FOUND = 69
NO_SUCH_GROUP = "Dead"
"""The state that a coordinator reports in the classic protocol if the group does not exist or has another protocol."""
STABLE_STATES = ("Stable", "Empty", NO_SUCH_GROUP)
NEWER_REQUESTS: Any = (ConsumerGroupDescribeRequest, StreamsGroupDescribeRequest)


class RequestRefused(WireError):
    """A broker answered with an error code."""

    def __init__(self, request: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{request} was refused with error {code}" + (f": {message}" if message else ""))
        self.code = code


@dataclass(frozen=True)
class BrokerView:
    """The cluster as one broker sees it."""

    brokers: tuple[int, ...]  # registered and not fenced
    topics: Mapping[str, Mapping[int, PartitionView]]
    epochs: Mapping[tuple[str, int], int]  # leader epochs
    # By broker: its advertised host and port.
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    controller: int = NO_BROKER  # the broker that accepts requests for the controller
    # The error codes of the topics that the broker does not describe.
    topic_errors: Mapping[str, int] = field(default_factory=dict)


def fetch_view(
    port: Target, timeout_s: float = REQUEST_TIMEOUT_S, topics: Collection[str] | None = None
) -> BrokerView:
    """Fetch a broker's view of the cluster. With `topics`: only of these topics. Raises `WireError`."""
    topic_type: Any = MetadataRequest.MetadataRequestTopic
    request_topics = None if topics is None else [topic_type(name=name) for name in sorted(topics)]
    request = MetadataRequest(topics=request_topics, allow_auto_topic_creation=False, version=12)
    answer = send_request(port, request, timeout_s)
    described = {
        topic.name: {
            part.partition_index: PartitionView(
                part.leader_id, tuple(part.replica_nodes), tuple(part.isr_nodes), str(topic.topic_id)
            )
            for part in topic.partitions
        }
        for topic in answer.topics
        if topic.error_code == NO_ERROR
    }
    epochs = {(t.name, p.partition_index): p.leader_epoch for t in answer.topics for p in t.partitions}
    return BrokerView(
        tuple(sorted(broker.node_id for broker in answer.brokers)),
        described,
        epochs,
        {broker.node_id: (broker.host, broker.port) for broker in answer.brokers},
        answer.controller_id,
        {topic.name: topic.error_code for topic in answer.topics if topic.error_code != NO_ERROR},
    )


def fetch_views(
    ports: Mapping[int, Target], timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[int, BrokerView | WireError]:
    """Fetch every broker's view in parallel. A broker that does not answer has an error instead of a view."""
    return ask_all(ports, lambda port: fetch_view(port, timeout_s))


def ask_all(ports: Mapping[int, Target], question: Callable[[Target], T]) -> dict[int, T | WireError]:
    """Ask all brokers in parallel. Return the answer or the error of each broker."""

    def answer(port: Target) -> T | WireError:
        try:
            return question(port)
        except WireError as error:
            return error

    with ThreadPoolExecutor(max(1, len(ports))) as pool:
        return dict(zip(ports, pool.map(answer, ports.values()), strict=True))


def find_sync_problems(
    views: Mapping[int, BrokerView | WireError], brokers: Sequence[int], topics: Collection[str] | None = None
) -> Iterator[str]:
    """Yield one sentence for each problem that some broker sees. Yield nothing if all views are in sync.

    Args:
        views: Each broker's view, or the error if it did not answer.
        brokers: The brokers that must be registered.
        topics: Check only these topics and the internal ones. None: check all topics.
    """
    first_leaders: dict[tuple[str, int], tuple[int, tuple[int, int]]] = {}
    for broker, view in views.items():
        if isinstance(view, WireError):
            yield f"broker {broker} does not answer"
            continue
        for missing in sorted(set(brokers) - set(view.brokers)):
            yield f"broker {missing} is not registered in broker {broker}'s view"
        for topic, partitions in sorted(view.topics.items()):
            if topics is not None and topic not in topics and topic not in INTERNAL:
                continue
            for number, partition in sorted(partitions.items()):
                name, in_view = f"{topic}/{number}", f"in broker {broker}'s view"
                if partition.leader == NO_BROKER:
                    yield f"{name} has no leader {in_view}"
                for out_of_sync in sorted(set(partition.replicas) - set(partition.isr)):
                    yield f"{name} lacks broker {out_of_sync} {in_view}"
                # A resumed broker first reports its view from before its pause. So the views must agree.
                leader = (partition.leader, view.epochs[topic, number])
                first_broker, first_leader = first_leaders.setdefault((topic, number), (broker, leader))
                if first_leader != leader:
                    yield f"brokers {first_broker} and {broker} disagree on who leads {name}"


def quorum_leader(port: Target, timeout_s: float = REQUEST_TIMEOUT_S) -> tuple[int, int]:
    """Return leader epoch and node id of the quorum's leader, if the node at this controller port is the leader.

    Raises `RequestRefused` if it is not the leader, because only the leader answers.
    """
    partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    answer = send_request(port, DescribeQuorumRequest(topics=[topic], version=1), timeout_s)
    if answer.error_code != NO_ERROR:
        raise RequestRefused("describing the quorum", answer.error_code)
    quorum = answer.topics[0].partitions[0]
    if quorum.error_code != NO_ERROR:
        raise RequestRefused("describing the quorum", quorum.error_code)
    return quorum.leader_epoch, quorum.leader_id


def finalized_features(port: Target, timeout_s: float = REQUEST_TIMEOUT_S) -> dict[str, int]:
    """Return the level of each finalized feature that this broker knows (KIP-584). Raises `RequestRefused`."""
    features = _features(port, timeout_s).finalized_features or ()
    return {feature.name: int(feature.max_version_level) for feature in features}


def supported_features(port: Target, timeout_s: float = REQUEST_TIMEOUT_S) -> dict[str, int]:
    """Return the highest level of each feature that this broker supports (KIP-584). Raises `RequestRefused`."""
    features = _features(port, timeout_s).supported_features or ()
    return {feature.name: int(feature.max_version) for feature in features}


def _features(port: Target, timeout_s: float) -> Any:
    request = ApiVersionsRequest(client_software_name="fencepost", client_software_version="0", version=3)
    answer = send_request(port, request, timeout_s)
    if answer.error_code != NO_ERROR:
        raise RequestRefused("asking for the features", answer.error_code)
    return answer


def find_coordinator(port: Target, key: str, kind: int, timeout_s: float = REQUEST_TIMEOUT_S) -> int:
    """Return the coordinator of a key of kind GROUP or TRANSACTION, as this broker sees it.

    The broker creates the internal topic if it does not exist. Raises `RequestRefused` while there is no coordinator.
    """
    request = FindCoordinatorRequest(coordinator_keys=[key], key_type=kind, version=4)
    (answer,) = send_request(port, request, timeout_s).coordinators
    if answer.error_code != NO_ERROR:
        raise RequestRefused(f"finding the coordinator of {key}", answer.error_code, answer.error_message)
    return int(answer.node_id)


def init_producer_id(port: Target, transactional_id: str, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
    """Register a transactional id at its coordinator. Raises `RequestRefused` while the coordinator is loading."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000, version=4)
    answer = send_request(port, request, timeout_s)
    if answer.error_code != NO_ERROR:
        raise RequestRefused(f"initialising {transactional_id}", answer.error_code)


def describe_transaction(
    port: Target, transactional_id: str, timeout_s: float = REQUEST_TIMEOUT_S
) -> TransactionView | None:
    """Ask a coordinator for the state of a transaction. None if it does not know the id. Raises `RequestRefused`."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id], version=0)
    (state,) = send_request(port, request, timeout_s).transaction_states
    if state.error_code == TRANSACTIONAL_ID_NOT_FOUND:
        return None
    if state.error_code != NO_ERROR:
        raise RequestRefused(f"describing the transaction of {transactional_id}", state.error_code)
    partitions = tuple((topic.topic, number) for topic in state.topics for number in topic.partitions)
    return TransactionView(state.transaction_state, state.producer_id, state.producer_epoch, partitions)


def commit_offset(port: Target, group: str, topic: str, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
    """Commit offset 0 of a topic's first partition for a group without members. Raises `RequestRefused`."""
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = kind.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_leader_epoch=-1, committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[kind(name=topic, partitions=[partition])],
        version=8,
    )
    answer = send_request(port, request, timeout_s)
    code = answer.topics[0].partitions[0].error_code
    if code != NO_ERROR:
        raise RequestRefused(f"committing an offset for {group}", code)


def committed_offsets(
    port: Target, group: str, timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[tuple[str, int], int]:
    """Ask a group's coordinator for the committed offsets by (topic, partition). Raises `RequestRefused`."""
    answer = send_request(port, OffsetFetchRequest(group_id=group, topics=None, version=7), timeout_s)
    if answer.error_code != NO_ERROR:
        raise RequestRefused(f"asking for the offsets of {group}", answer.error_code)
    offsets: dict[tuple[str, int], int] = {}
    for topic in answer.topics:
        for part in topic.partitions:
            if part.error_code != NO_ERROR:
                raise RequestRefused(f"asking for the offsets of {group}", part.error_code)
            offsets[topic.name, part.partition_index] = part.committed_offset
    return offsets


def list_offsets(
    port: Target,
    partitions: Sequence[tuple[str, int]],
    timestamp: int,
    isolation: int,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> dict[tuple[str, int], int]:
    """Ask a leader for the first or the end offset of each partition.

    `timestamp` is EARLIEST or LATEST. `isolation` is 0 for read_uncommitted, 1 for read_committed.
    Raises `RequestRefused` if the broker does not lead a partition.
    """
    answers = list_offsets_and_timestamps(port, partitions, timestamp, isolation, timeout_s)
    return {partition: answer.offset for partition, answer in answers.items()}


def list_offsets_and_timestamps(
    port: Target,
    partitions: Sequence[tuple[str, int]],
    timestamp: int,
    isolation: int,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> dict[tuple[str, int], Any]:
    """Ask a leader for the `offset` and the `timestamp` of a record in each partition.

    Raises `RequestRefused` if the broker does not lead a partition.
    """
    kind: Any = ListOffsetsRequest.ListOffsetsTopic
    topics = [
        kind(
            name=name,
            partitions=[
                kind.ListOffsetsPartition(
                    partition_index=number, current_leader_epoch=-1, timestamp=timestamp
                )
                for topic, number in partitions
                if topic == name
            ],
        )
        for name in sorted({topic for topic, _ in partitions})
    ]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics, version=7)
    offsets: dict[tuple[str, int], Any] = {}
    for topic in send_request(port, request, timeout_s).topics:
        for part in topic.partitions:
            if part.error_code != NO_ERROR:
                raise RequestRefused(
                    f"asking for the end of {topic.name}/{part.partition_index}", part.error_code
                )
            offsets[topic.name, part.partition_index] = part
    return offsets


def describe_settings(
    port: Target, kind: int, names: Sequence[str], keys: Sequence[str], timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[str, dict[str, str]]:
    """Return the current settings `keys` of topics or brokers, by resource name. Raises `RequestRefused`.

    `kind` is TOPIC_RESOURCE or BROKER_RESOURCE.
    """
    resource: Any = DescribeConfigsRequest.DescribeConfigsResource
    resources = [
        resource(resource_type=kind, resource_name=name, configuration_keys=list(keys)) for name in names
    ]
    request = DescribeConfigsRequest(
        resources=resources, include_synonyms=False, include_documentation=False, version=4
    )
    settings: dict[str, dict[str, str]] = {}
    for answer in send_request(port, request, timeout_s).results:
        if answer.error_code != NO_ERROR:
            raise RequestRefused(
                f"asking for the settings of {answer.resource_name}", answer.error_code, answer.error_message
            )
        settings[answer.resource_name] = {config.name: config.value for config in answer.configs}
    return settings


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
