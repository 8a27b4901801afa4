"""A cluster that is already there, and that others may use as well.

Its topics, groups and transactional ids that begin with the run's tag are the run's own; nothing else of it is touched,
asked for or judged. Its brokers cannot be struck; the links of the run's own clients can, where that is permitted. A
context manager: entered, every broker has answered; left, what the run made is removed, unless its topics are to stay.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TypeVar

from harness.cluster import Broker, ClusterSpec, Need, PartitionView, admin, topics
from harness.cluster.admin import NO_BROKER
from harness.cluster.client_links import ClientLinks
from harness.cluster.connecting import (
    ANSWER_TIMEOUT_S,
    CLEAN_UP_TIMEOUT_S,
    ask_any,
    bootstrap_servers,
    reach_brokers,
    retry_unless_forbidden,
)
from harness.cluster.forbidden import Forbidden
from harness.cluster.questions import CONSUMER_OFFSETS, TRANSACTION_STATE, ClusterQueries, retry
from harness.common.errors import EnvironmentFailure
from harness.model.pipeline import TopicPartition, TopicSpec
from harness.network import Network
from harness.network.none import NoNetwork
from harness.network.toxics import EFFECTS
from harness.settings.tags import prefix_of
from harness.wire.protocol import Target, WireError
from harness.witness.fetch_witness import FetchWitness
from harness.witness.own_batches import RunBatches
from harness.witness.request_log import ClientVersions, ObservedClientIds

INTERNAL = (TRANSACTION_STATE, CONSUMER_OFFSETS)
T = TypeVar("T")
_log = logging.getLogger(__name__)


class ExternalCluster(ClusterQueries):
    """A `Cluster` that a run is a guest of."""

    brokers: Sequence[Broker] = ()  # that one could strike

    def __init__(self, spec: ClusterSpec, links: ClientLinks | None = None) -> None:
        """Not connected yet. `links`: those of its clients, where they may be struck."""
        super().__init__({}, {}, lambda broker: True)
        self._spec = spec
        self._links = links
        self.network: Network = NoNetwork()
        self.abilities: frozenset[Need] = EFFECTS if links else frozenset()
        self._made: list[str] = []
        self._since: dict[TopicPartition, int] = {}  # where the internal topics ended before the run
        self._refused: dict[str, str] = {}
        self._witness: FetchWitness | None = None
        self.bootstrap = spec.bootstrap or ""

    def __enter__(self) -> "ExternalCluster":
        servers = bootstrap_servers(self.bootstrap or None, self._spec.client_config)
        self.bootstrap = ",".join(map(str, servers))
        brokers = reach_brokers(servers)
        self._brokers = brokers
        if self._links is not None:
            try:
                self.network = self._links.start(brokers, self._spec.client_config)
            except BaseException:
                self._links.end()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what the run made; what fails is logged."""
        if self._links is not None:
            self._links.end()
        if self._spec.keep_topics:
            return
        acts: list[tuple[str, Callable[[], None]]] = []
        if self._made:
            delete = partial(topics.delete_topics, timeout_s=CLEAN_UP_TIMEOUT_S)
            acts.append(("topics", lambda: self._ask_any(lambda at: delete(at, self.topics()))))
        acts += [(group, partial(self._delete_group, group)) for group in self._spec.groups]
        for what, act in acts:
            try:
                act()
            except EnvironmentFailure as failure:
                _log.error(
                    "%s of the run are left on the cluster, for `fencepost clean --cluster external` to delete: %s",
                    what,
                    failure,
                )

    def witness(self) -> FetchWitness:
        """What the leaders give; of the internal topics, what is the run's."""
        if self._witness is None:
            own = RunBatches(self._spec.tag, self._spec.groups)
            self._witness = FetchWitness(self._brokers, own, self._refused)
        return self._witness

    def bootstrap_for(self, endpoint: str) -> str:
        """The endpoint's own proxies; the same for all, where there are none."""
        return self._links.bootstrap_for(endpoint) if self._links else self.bootstrap

    def controller(self) -> int:
        """Whoever takes what is meant for the controller, as the cluster says."""
        return self._view(()).controller

    def describe(self, topic: str) -> Mapping[int, PartitionView]:
        """By partition; empty if there is no such topic, or it may not be seen."""
        return self._view((topic,)).topics.get(topic, {})

    def create_topics(self, wanted: Sequence[TopicSpec], timeout_s: float) -> None:
        """Create them, and have both internal topics made; notes where those end. Raises `EnvironmentFailure`."""
        names = [topic.name for topic in wanted]
        if there := sorted(self._view(names).topics):
            raise EnvironmentFailure(f"the topic {there[0]} exists already, and is not this run's: run again")
        self._made = names  # whatever becomes of the request
        create = partial(topics.create_topics, topics=wanted, timeout_s=timeout_s)
        try:
            self._allowed(create, "Create", self._spec.tag)
        except Forbidden:
            self._made = []
            raise
        keys = [(admin.TRANSACTION, self._spec.tag), *((admin.GROUP, group) for group in self._spec.groups)]
        for kind, key in keys:
            self._allowed(partial(admin.find_coordinator, key=key, kind=kind), "Describe", key)
        self.await_in_sync(timeout_s, names)
        told = self._view(INTERNAL)
        for topic in INTERNAL:
            if topic not in told.topics:
                self._refused[topic] = f"the cluster's ACLs keep {topic} from this user"
        for place, (_, _, high) in self.log_offsets([t for t in INTERNAL if t in told.topics]).items():
            self._since[place] = high

    def txn_coordinator(self, transactional_id: str) -> int:
        """As the cluster says; -1: none."""
        return self._coordinator(transactional_id, admin.TRANSACTION)

    def group_coordinator(self, group: str) -> int:
        """As the cluster says; -1: none."""
        return self._coordinator(group, admin.GROUP)

    def out_of_sync(self, topics: Collection[str] | None = None) -> list[str]:
        """What is not as it should be with the run's own topics; the rest of the cluster is not looked at."""
        view = self._view(topics or self._made)
        found = [f"{topic} is not there" for topic in sorted(set(topics or self._made) - view.topics.keys())]
        for topic, partitions in sorted(view.topics.items()):
            for number, partition in sorted(partitions.items()):
                if partition.leader == NO_BROKER:
                    found.append(f"{topic}/{number} has no leader")
                lacking = sorted(set(partition.replicas) - set(partition.isr))
                found += [f"{topic}/{number} lacks broker {broker}" for broker in lacking]
        return found

    def topics(self) -> tuple[str, ...]:
        """The run's own: those that it made, and those that its programs made under its tag."""
        stem = f"{self._spec.tag}-"
        everything = retry(
            lambda: self._ask_any(lambda at: admin.fetch_view(at, ANSWER_TIMEOUT_S)), "the cluster's topics"
        )
        return tuple(sorted({*self._made, *(one for one in everything.topics if one.startswith(stem))}))

    def log_offsets(self, topics: Sequence[str]) -> Mapping[TopicPartition, tuple[int, int, int]]:
        """By partition: log start, last stable offset, high watermark. Of the internal topics, from where the run found
        them; what others have open there is no matter of the run.
        """
        told = super().log_offsets([topic for topic in topics if topic not in self._refused])
        return {
            place: (max(start, self._since.get(place, start)), high, high)
            if place[0] in INTERNAL
            else (start, stable, high)
            for place, (start, stable, high) in told.items()
        }

    def compacted(self, topics: Sequence[str]) -> Mapping[str, bool]:
        """The internal topics are; those of the run were made otherwise."""
        return {topic: topic in INTERNAL for topic in topics}

    def record_requests(self, on: bool, whose: str = "the run's") -> None:
        """Their log is not ours to turn on."""

    def client_ids(self, endpoint: str) -> ObservedClientIds:
        """Nobody was written down."""
        return ObservedClientIds()

    def client_versions(self, endpoints: Sequence[str]) -> ClientVersions:
        """Nothing was written down."""
        return ClientVersions()

    def _current(self) -> admin.BrokerView:
        return self._view((*self._made, *INTERNAL))

    def _view(self, topics: Collection[str]) -> admin.BrokerView:
        return retry(
            lambda: self._ask_any(lambda at: admin.fetch_view(at, ANSWER_TIMEOUT_S, topics)),
            "a broker's view",
        )

    def _ask_any(self, question: Callable[[Target], T]) -> T:
        return ask_any(self._brokers, question)

    def _allowed(self, question: Callable[[Target], T], operation: str, name: str) -> T:
        return retry_unless_forbidden(
            lambda: self._ask_any(question), operation, name, prefix_of(self._spec.tag)
        )

    def _coordinator(self, key: str, kind: int) -> int:
        try:
            return self._ask_any(lambda at: admin.find_coordinator(at, key, kind))
        except WireError:
            return NO_BROKER

    def _delete_group(self, group: str) -> None:
        coordinator = self.group_coordinator(group)
        if coordinator != NO_BROKER:
            topics.delete_group(self._brokers[coordinator], group)
