"""The queries of `Cluster`. Each is sent to the right broker, and repeated until a broker answers."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from harness.cluster import Ability, PartitionView, TransactionView, admin, operations
from harness.cluster.admin import (
    NO_BROKER,
    NO_ERROR,
    REQUEST_TIMEOUT_S,
    RequestRefused,
    ask_all,
    assigned_partitions,
    stable_members,
)
from harness.cluster.operations import TOPIC_ALREADY_EXISTS, create_topics
from harness.common.errors import FaultFailed
from harness.common.waiting import wait_for
from harness.model.pipeline import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition, TopicSpec
from harness.model.vocabulary import WARM_UP
from harness.wire.protocol import Target, WireError, send_request

UNKNOWN_TOPIC_OR_PARTITION = 3
CLOCK_TOPIC = "fencepost-clock"
"""The prefix of the topics, one for each broker, in which the broker sets the time stamps of records."""
RETRY_TIMEOUT_S = 15.0  # more than an election takes
VIEW_TIMEOUT_S = 5.0  # an external cluster may be far away

T = TypeVar("T")


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


def java_hash(text: str) -> int:
    """Compute Java's `String.hashCode`: a signed 32-bit number over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[position : position + 2])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of an internal topic for a group or a transactional id.

    Kafka computes `Utils.abs(key.hashCode()) % partitions`. For the smallest hash code, `Utils.abs` returns 0.
    """
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


class ClusterQueries:
    """Queries to brokers and controllers, on ports without a proxy."""

    def __init__(
        self, brokers: Mapping[int, Target], controllers: Mapping[int, Target], is_live: Callable[[int], bool]
    ) -> None:
        """Keep the addresses.

        Args:
            brokers: The broker listeners by node id.
            controllers: The controller listeners by node id.
            is_live: Returns whether a broker runs. The others are not asked, because each would cost a time-out.
        """
        self._brokers: Mapping[int, Target] = brokers
        self._controllers: Mapping[int, Target] = controllers
        self._is_live = is_live

    def controller(self) -> int:
        """Return the active controller: the node that leads the quorum in the newest epoch. Raises `WaitTimeout`."""

        def leader() -> int | None:
            answers = ask_all(self._live(self._controllers), admin.quorum_leader).values()
            leaders = [answer for answer in answers if not isinstance(answer, WireError)]
            return max(leaders)[1] if leaders else None

        return wait_for(leader, "an active controller", RETRY_TIMEOUT_S)

    def describe(self, topic: str) -> Mapping[int, PartitionView]:
        """Return a topic's partitions as the controller sees them. Empty if there is no such topic."""
        return self._current().topics.get(topic, {})

    def txn_coordinator(self, transactional_id: str) -> int:
        """Return the coordinator of a transactional id. -1 if there is none."""
        return self._leader_for(TRANSACTION_STATE, transactional_id)

    def describe_transaction(self, transactional_id: str) -> TransactionView | None:
        """Ask the coordinator for the state of a transactional id. None if it is not known, or nothing answers."""
        coordinator = self.txn_coordinator(transactional_id)
        if coordinator == NO_BROKER or not self._is_live(coordinator):
            return None
        try:
            return admin.describe_transaction(self._brokers[coordinator], transactional_id)
        except WireError:  # the coordinator has moved, or is still starting
            return None

    def group_coordinator(self, group: str) -> int:
        """Return the coordinator of a group. -1 if there is none."""
        return self._leader_for(CONSUMER_OFFSETS, group)

    def offsets_partition(self, group: str) -> tuple[str, int]:
        """Return the partition of `__consumer_offsets` with the group's offsets. Partition 0 if ACLs hide the topic."""
        return CONSUMER_OFFSETS, partition_for(group, max(1, len(self.describe(CONSUMER_OFFSETS))))

    def transactions_partition(self, transactional_id: str) -> tuple[str, int]:
        """Return the partition of `__transaction_state` with the id's states. Partition 0 if ACLs hide the topic."""
        partitions = len(self.describe(TRANSACTION_STATE))
        return TRANSACTION_STATE, partition_for(transactional_id, max(1, partitions))

    def out_of_sync(self, topics: Collection[str] | None = None) -> list[str]:
        """Describe each problem that some live broker sees. Empty if there is none."""
        live = self._live(self._brokers)
        down = [f"broker {broker} is not running" for broker in self._brokers if broker not in live]
        return down + list(admin.find_sync_problems(admin.fetch_views(live), sorted(self._brokers), topics))

    def await_in_sync(self, timeout_s: float, topics: Collection[str] | None = None) -> None:
        """Wait until every broker answers and sees every ISR full."""
        problems: list[str] = []

        def in_sync() -> bool:
            problems[:] = self.out_of_sync(topics)
            return not problems

        wait_for(in_sync, "every ISR to be full", timeout_s, last_seen=lambda: "; ".join(problems[:5]))

    def log_offsets(self, topics: Sequence[str]) -> Mapping[tuple[str, int], tuple[int, int, int]]:
        """Return for each (topic, partition) what its leader reports: log start, last stable offset, high watermark."""

        def offsets() -> dict[tuple[str, int], tuple[int, int, int]]:
            view = self._current()
            by_leader: dict[int, list[tuple[str, int]]] = {}
            for topic in topics:
                if topic not in view.topics:
                    raise WireError(f"there is no topic {topic}")
                for number, partition in view.topics[topic].items():
                    by_leader.setdefault(partition.leader, []).append((topic, number))
            offsets_by_partition: dict[tuple[str, int], tuple[int, int, int]] = {}
            for leader, partitions in by_leader.items():
                if leader == NO_BROKER:
                    raise WireError(f"{partitions[0][0]}/{partitions[0][1]} has no leader")
                port = self._brokers[leader]
                start = admin.list_offsets(port, partitions, admin.EARLIEST, isolation=0)
                stable = admin.list_offsets(port, partitions, admin.LATEST, isolation=1)
                high = admin.list_offsets(port, partitions, admin.LATEST, isolation=0)
                offsets_by_partition |= {
                    partition: (start[partition], stable[partition], high[partition])
                    for partition in partitions
                }
            return offsets_by_partition

        return retry(offsets, f"the end offsets of {', '.join(topics)}")

    def committed_offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        """Return a group's committed offsets by (topic, partition)."""

        def offsets() -> dict[tuple[str, int], int]:
            coordinator = self.group_coordinator(group)
            if coordinator == NO_BROKER:
                raise WireError(f"the group {group} has no coordinator: {self._why_no_coordinator(group)}")
            return admin.committed_offsets(self._brokers[coordinator], group)

        return retry(offsets, f"the committed offsets of {group}")

    def _why_no_coordinator(self, group: str) -> str:
        """Say what the cluster answered when it was asked for the coordinator of a group."""
        partitions = self.describe(CONSUMER_OFFSETS)
        if not partitions:
            return f"the brokers' metadata has no topic {CONSUMER_OFFSETS}"
        return f"{CONSUMER_OFFSETS}/{partition_for(group, len(partitions))} has no leader"

    def topics(self) -> tuple[str, ...]:
        """Return the names of all topics except Kafka's internal ones."""
        return tuple(sorted(topic for topic in self._current().topics if not topic.startswith("__")))

    def members(self, group: str) -> tuple[str, ...] | None:
        """Return the ids of a group's members. None while the group is not stable, or if no coordinator answers."""
        return self._ask_group_coordinator(group, stable_members)

    def assigned(self, group: str) -> frozenset[TopicPartition] | None:
        """Return the partitions that the members of a group have been assigned. None: not known."""
        return self._ask_group_coordinator(group, assigned_partitions)

    def _ask_group_coordinator(self, group: str, question: Callable[[Target, str], T | None]) -> T | None:
        """Ask the coordinator of a group. None if it does not answer, or if there is none."""
        coordinator = self.group_coordinator(group)
        if coordinator == NO_BROKER:
            return None
        try:
            return question(self._brokers[coordinator], group)
        except WireError:
            return None

    def clock_ahead_s(self, broker: int) -> float:
        """Return how far a broker's wall clock is ahead of this machine's. Raises `WaitTimeout`."""
        return retry(lambda: ahead_s(self._brokers[broker], broker), f"a record that broker {broker} writes")

    def compacted(self, topics: Sequence[str]) -> Mapping[str, bool]:
        """Return for each topic whether its policy is `compact` and some broker runs the log cleaner."""

        def answer() -> dict[str, bool]:
            live = self._live(self._brokers)
            log_cleaner_runs = False
            for broker, port in live.items():
                settings = admin.describe_settings(
                    port, admin.BROKER_RESOURCE, [str(broker)], ["log.cleaner.enable"]
                )
                if settings[str(broker)].get("log.cleaner.enable") != "false":
                    log_cleaner_runs = True
            any_broker = next(iter(live.values()))
            policies = admin.describe_settings(any_broker, admin.TOPIC_RESOURCE, topics, ["cleanup.policy"])
            return {
                topic: log_cleaner_runs and "compact" in policies[topic].get("cleanup.policy", "")
                for topic in topics
            }

        return retry(answer, f"the settings of {', '.join(topics)}")

    def isolate(self, broker: int, how: Ability) -> AbstractContextManager[Callable[[], str]]:
        """Raise `FaultFailed`, because only brokers in containers can be isolated."""
        raise FaultFailed(f"broker {broker} was not isolated: on this cluster one cannot {how}")

    def use_kafka(self, broker: int, version: str) -> None:
        """Raise `FaultFailed`, because only a cluster of processes has several versions of Kafka."""
        raise FaultFailed(f"broker {broker} was not changed: on this cluster one cannot {Ability.UPGRADE}")

    def features_of(self, version: str) -> Mapping[str, int]:
        """Raise `FaultFailed`, as `use_kafka` does."""
        raise FaultFailed(f"Kafka {version} is not known: on this cluster one cannot {Ability.UPGRADE}")

    def finalized_features(self, broker: int | None = None) -> Mapping[str, int]:
        """Return the level of each finalized feature. Kafka leaves out features at level 0."""
        return retry(
            lambda: admin.finalized_features(self._any_broker() if broker is None else self._brokers[broker]),
            "the cluster's features",
        )

    def supported_features(self, broker: int) -> Mapping[str, int]:
        """Return the highest level of each feature that a broker supports."""
        return retry(
            lambda: admin.supported_features(self._brokers[broker]), f"the features of broker {broker}"
        )

    def update_features(self, levels: Mapping[str, int]) -> None:
        """Set the finalized levels of features. Those that have their level already are left out."""

        def update() -> None:
            port = self._any_broker()
            present = admin.finalized_features(port)
            changed = {name: level for name, level in levels.items() if level != present.get(name, 0)}
            operations.update_features(port, present, changed)

        retry(update, f"new levels of {', '.join(levels)}")

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Ask for these replicas of partitions, without waiting."""
        retry(lambda: operations.reassign(self._any_broker(), replicas), "a reassignment of partitions")

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> None:
        """Let the first replica of each partition lead it."""
        retry(lambda: operations.elect_preferred(self._any_broker(), partitions), "an election of leaders")

    def alter_topic(self, topic: str, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Set settings of a topic. Return their values before."""

        def present() -> Mapping[str, str]:
            port = self._any_broker()
            return admin.describe_settings(port, admin.TOPIC_RESOURCE, [topic], list(settings))[topic]

        before = retry(present, f"the settings of {topic}")
        retry(lambda: operations.alter_topic(self._any_broker(), topic, settings), f"new settings of {topic}")
        return before

    def add_partitions(self, topic: str, count: int) -> None:
        """Raise a topic's number of partitions to `count`."""
        retry(
            lambda: self._add_partitions(self._any_broker(), topic, count), f"{count} partitions of {topic}"
        )

    def _add_partitions(self, port: Target, topic: str, count: int) -> None:
        """Send the request, unless an earlier one whose answer was lost has been carried out."""
        if len(self.describe(topic)) < count:
            operations.add_partitions(port, topic, count)

    def describe_by_broker(self, topic: str) -> Mapping[int, Mapping[int, PartitionView]]:
        """Return the partitions of a topic as each live broker sees them. A broker that does not answer sees none."""
        views = ask_all(
            self._live(self._brokers), lambda port: admin.fetch_view(port, VIEW_TIMEOUT_S, (topic,))
        )
        return {
            broker: {} if isinstance(view, WireError) else view.topics.get(topic, {})
            for broker, view in views.items()
        }

    def create_topics(self, topics: Sequence[TopicSpec], timeout_s: float) -> None:
        """Create topics and both internal topics, use the internal ones once, and wait until every ISR is full."""
        any_broker = next(iter(self._live(self._brokers).values()))
        retry(partial(create_topics, any_broker, topics, timeout_s), "the topics", timeout_s)
        for kind in (admin.TRANSACTION, admin.GROUP):
            retry(partial(admin.find_coordinator, any_broker, WARM_UP, kind), "a coordinator", timeout_s)
        self.await_in_sync(timeout_s)
        for broker, port in self._brokers.items():
            self._warm_up(broker, port, timeout_s)
        if topics:
            commit = partial(self._commit_first, topics[0].name)
            retry(commit, "a first commit of offsets", timeout_s)

    def _commit_first(self, topic: str) -> None:
        coordinator = self.group_coordinator(WARM_UP)
        if coordinator == NO_BROKER:
            raise WireError(f"the group {WARM_UP} has no coordinator")
        admin.commit_offset(self._brokers[coordinator], WARM_UP, topic)

    def _warm_up(self, broker: int, port: Target, timeout_s: float) -> None:
        """Make a transaction coordinator load its partitions and get a block of producer ids."""
        partitions = self.describe(TRANSACTION_STATE)
        ids = (f"{WARM_UP}-{n}" for n in range(64 * len(partitions)))
        transactional_id = next(
            (id_ for id_ in ids if partitions[partition_for(id_, len(partitions))].leader == broker), None
        )
        if transactional_id is not None:
            initialise = partial(admin.init_producer_id, port, transactional_id)
            retry(initialise, f"broker {broker} to be ready to coordinate transactions", timeout_s)

    def _any_broker(self) -> Target:
        """Return the active controller if it is a broker, else any broker."""
        return self._brokers.get(self.controller()) or next(iter(self._brokers.values()))

    def _live(self, ports: Mapping[int, Target]) -> dict[int, Target]:
        return {broker: port for broker, port in ports.items() if self._is_live(broker)}

    def _leader_for(self, topic: str, key: str) -> int:
        partitions = self.describe(topic)
        if not partitions:
            return NO_BROKER
        return partitions[partition_for(key, len(partitions))].leader

    def _current(self) -> admin.BrokerView:
        return retry(lambda: admin.fetch_view(self._brokers[self.controller()]), "the controller's view")


def retry(question: Callable[[], T], awaited: str, timeout_s: float = RETRY_TIMEOUT_S) -> T:
    """Repeat a question until a broker answers it. Raises `WaitTimeout` with the last error.

    `awaited` completes the sentence "waited 10 s for ...".
    """
    last_error: list[WireError] = []

    def answer() -> tuple[T] | None:
        try:
            return (question(),)
        except WireError as error:
            last_error[:] = [error]
            return None

    return wait_for(answer, awaited, timeout_s, last_seen=lambda: last_error[0])[0]
