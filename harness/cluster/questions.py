"""What a cluster answers about itself, once asked in the right places: retried, and bounded."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

from harness.cluster import Ability, PartitionView, TransactionView, admin
from harness.cluster.admin import NO_BROKER, ask_all
from harness.cluster.group_members import stable_members
from harness.cluster.topics import create_topics
from harness.common.errors import FaultFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.model.pipeline import TopicSpec
from harness.model.vocabulary import WARM_UP
from harness.wire.protocol import Target, WireError
from harness.witness.request_log import LOGGER

TRANSACTION_STATE = "__transaction_state"
CONSUMER_OFFSETS = "__consumer_offsets"
RETRY_TIMEOUT_S = 15.0  # more than an election takes

T = TypeVar("T")


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, a signed number of 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """The partition of an internal topic for a group or a transactional id.

    Kafka computes `Utils.abs(key.hashCode()) % partitions`; for the smallest hash code, `Utils.abs` returns 0.
    """
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


class ClusterQueries:
    """Asked on ports with no proxy: `brokers` by broker, `controllers` by node.

    A broker that is not `up` is not asked: a paused one would cost a time-out each time.
    """

    def __init__(
        self, brokers: Mapping[int, Target], controllers: Mapping[int, Target], up: Callable[[int], bool]
    ) -> None:
        self._brokers: Mapping[int, Target] = brokers
        self._controllers: Mapping[int, Target] = controllers
        self._up = up
        self._lock = threading.Lock()
        self._recorded_for: frozenset[str] = frozenset()

    def controller(self) -> int:
        """The active controller, in its own view; the newest if two believe to be. Raises `WaitTimeout`."""

        def leader() -> int | None:
            answers = ask_all(self._live(self._controllers), admin.quorum_leader).values()
            led = [answer for answer in answers if not isinstance(answer, WireError)]
            return max(led)[1] if led else None

        return wait_for(leader, "an active controller", RETRY_TIMEOUT_S)

    def describe(self, topic: str) -> Mapping[int, PartitionView]:
        """By partition, in the controller's view; empty if there is no such topic."""
        return self._current().topics.get(topic, {})

    def txn_coordinator(self, transactional_id: str) -> int:
        """The broker that leads the id's partition of `__transaction_state`; -1: none."""
        return self._leader_for(TRANSACTION_STATE, transactional_id)

    def describe_transaction(self, transactional_id: str) -> TransactionView | None:
        """What its coordinator says of it now; None: nothing, or nobody coordinates it."""
        coordinator = self.txn_coordinator(transactional_id)
        if coordinator == NO_BROKER or not self._up(coordinator):
            return None
        try:
            return admin.describe_transaction(self._brokers[coordinator], transactional_id)
        except WireError:  # it has moved meanwhile, or is only now coming up
            return None

    def group_coordinator(self, group: str) -> int:
        """The broker that leads the group's partition of `__consumer_offsets`; -1: none."""
        return self._leader_for(CONSUMER_OFFSETS, group)

    def offsets_partition(self, group: str) -> tuple[str, int]:
        """The partition of `__consumer_offsets` with the group's offsets; a guess if the topic may not be seen."""
        return CONSUMER_OFFSETS, partition_for(group, max(1, len(self.describe(CONSUMER_OFFSETS))))

    def out_of_sync(self, topics: Collection[str] | None = None) -> list[str]:
        """What is not as it should be, in every broker's own view; empty: all is well."""
        live = self._live(self._brokers)
        down = [f"broker {broker} is not running" for broker in self._brokers if broker not in live]
        return down + list(admin.find_sync_problems(admin.fetch_views(live), sorted(self._brokers), topics))

    def await_in_sync(self, timeout_s: float, topics: Collection[str] | None = None) -> None:
        """Wait until every broker answers and every ISR is full in every broker's own view."""
        seen: list[str] = []

        def all_well() -> bool:
            seen[:] = self.out_of_sync(topics)
            return not seen

        wait_for(all_well, "every ISR to be full", timeout_s, last_seen=lambda: "; ".join(seen[:5]))

    def log_offsets(self, topics: Sequence[str]) -> Mapping[tuple[str, int], tuple[int, int, int]]:
        """By (topic, partition): log start, last stable offset, high watermark, asked at the leaders."""

        def offsets() -> dict[tuple[str, int], tuple[int, int, int]]:
            view = self._current()
            by_leader: dict[int, list[tuple[str, int]]] = {}
            for topic in topics:
                if topic not in view.topics:
                    raise WireError(f"there is no topic {topic}")
                for number, partition in view.topics[topic].items():
                    by_leader.setdefault(partition.leader, []).append((topic, number))
            found: dict[tuple[str, int], tuple[int, int, int]] = {}
            for leader, partitions in by_leader.items():
                if leader == NO_BROKER:
                    raise WireError(f"nobody leads {partitions[0][0]}/{partitions[0][1]}")
                port = self._brokers[leader]
                start = admin.list_offsets(port, partitions, admin.EARLIEST, isolation=0)
                stable = admin.list_offsets(port, partitions, admin.LATEST, isolation=1)
                high = admin.list_offsets(port, partitions, admin.LATEST, isolation=0)
                found |= {each: (start[each], stable[each], high[each]) for each in partitions}
            return found

        return retry(offsets, f"the ends of {', '.join(topics)}")

    def committed_offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        """A group's committed offsets by (topic, partition)."""

        def offsets() -> dict[tuple[str, int], int]:
            coordinator = self.group_coordinator(group)
            if coordinator == NO_BROKER:
                raise WireError(f"nobody coordinates {group}")
            return admin.committed_offsets(self._brokers[coordinator], group)

        return retry(offsets, f"the offsets of {group}")

    def topics(self) -> tuple[str, ...]:
        """The names of all topics but Kafka's own."""
        return tuple(sorted(topic for topic in self._current().topics if not topic.startswith("__")))

    def members(self, group: str) -> tuple[str, ...] | None:
        """The ids of a group's members; None while it is not stable, or nobody can say."""
        coordinator = self.group_coordinator(group)
        if coordinator == NO_BROKER:
            return None
        try:
            return stable_members(self._brokers[coordinator], group)
        except WireError:
            return None

    def compacted(self, topics: Sequence[str]) -> Mapping[str, bool]:
        """Whether records may be compacted away: the topic's policy says so, and a broker's cleaner runs."""

        def answer() -> dict[str, bool]:
            live = self._live(self._brokers)
            cleans = False
            for broker, port in live.items():
                told = admin.describe_settings(
                    port, admin.BROKER_RESOURCE, [str(broker)], ["log.cleaner.enable"]
                )
                cleans = cleans or told[str(broker)].get("log.cleaner.enable") != "false"
            some = next(iter(live.values()))
            policies = admin.describe_settings(some, admin.TOPIC_RESOURCE, topics, ["cleanup.policy"])
            return {
                topic: cleans and "compact" in policies[topic].get("cleanup.policy", "") for topic in topics
            }

        return retry(answer, f"the settings of {', '.join(topics)}")

    def record_requests(self, on: bool, whose: str = "the run's") -> None:
        """Have every live broker write down what it is asked, or no more; raises `WireError`."""
        with self._lock:  # the run and a fault record at once
            self._recorded_for = self._recorded_for | {whose} if on else self._recorded_for - {whose}
            self._set_recording(bool(self._recorded_for))

    def _set_recording(self, on: bool) -> None:
        level = "DEBUG" if on else "ERROR"  # brokers take no OFF, and log no request at ERROR
        live = self._live(self._brokers)
        brokers = {port: broker for broker, port in live.items()}
        told = ask_all(live, lambda port: admin.set_log_level(port, brokers[port], LOGGER, level))
        for error in told.values():
            if isinstance(error, WireError):
                raise error

    def isolate(self, broker: int, how: Ability) -> AbstractContextManager[Callable[[], str]]:
        """Raises `FaultFailed`: brokers can be isolated where they are containers."""
        raise FaultFailed(f"one cannot {how} on this cluster, so broker {broker} stays on its network")

    def finalized_features(self) -> Mapping[str, int]:
        """The features that are in force, and at which level; those at level 0 are left out."""

        def told() -> dict[str, int]:
            """By the controller, or by any broker where controllers are nodes of their own."""
            return admin.finalized_features(
                self._brokers.get(self.controller()) or next(iter(self._brokers.values()))
            )

        return retry(told, "the cluster's features")

    def create_topics(self, topics: Sequence[TopicSpec], timeout_s: float) -> None:
        """Create them and both internal topics, and use those once; returns when all is in sync."""
        some = next(iter(self._live(self._brokers).values()))
        retry(partial(create_topics, some, topics, timeout_s), "the topics", timeout_s)
        for kind in (admin.TRANSACTION, admin.GROUP):
            retry(partial(admin.find_coordinator, some, WARM_UP, kind), "a coordinator", timeout_s)
        self.await_in_sync(timeout_s)
        for broker, port in self._brokers.items():
            self._warm_up(broker, port, timeout_s)
        if topics:
            first = partial(self._commit_first, topics[0].name)
            retry(first, "a first commit of offsets", timeout_s)

    def _commit_first(self, topic: str) -> None:
        coordinator = self.group_coordinator(WARM_UP)
        if coordinator == NO_BROKER:
            raise WireError(f"nobody coordinates {WARM_UP}")
        admin.commit_offset(self._brokers[coordinator], WARM_UP, topic)

    def _warm_up(self, broker: int, port: Target, timeout_s: float) -> None:
        """Have a transaction coordinator load its partitions and get its block of producer ids."""
        led = self.describe(TRANSACTION_STATE)
        ids = (f"{WARM_UP}-{n}" for n in range(64 * len(led)))
        own = next((id_ for id_ in ids if led[partition_for(id_, len(led))].leader == broker), None)
        if own is not None:
            first = partial(admin.init_producer_id, port, own)
            retry(first, f"broker {broker} to coordinate transactions", timeout_s)

    def _live(self, ports: Mapping[int, Target]) -> dict[int, Target]:
        return {broker: port for broker, port in ports.items() if self._up(broker)}

    def _leader_for(self, topic: str, key: str) -> int:
        partitions = self.describe(topic)
        if not partitions:
            return NO_BROKER
        return partitions[partition_for(key, len(partitions))].leader

    def _current(self) -> admin.BrokerView:
        return retry(lambda: admin.fetch_view(self._brokers[self.controller()]), "the controller's view")


def retry(question: Callable[[], T], awaited: str, timeout_s: float = RETRY_TIMEOUT_S) -> T:
    """Ask until a broker answers; raises `WaitTimeout` with the last refusal."""
    refusal: list[WireError | WaitTimeout] = []

    def answered() -> tuple[T] | None:
        try:
            return (question(),)
        except WireError as error:
            refusal[:] = [error]
            return None

    return wait_for(answered, awaited, timeout_s, last_seen=lambda: refusal[0])[0]
