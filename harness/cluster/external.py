"""An external cluster: it exists before the run, and other programs may use it too.

Every client endpoint has a toxiproxy listener for each broker. Toxiproxy forwards its connections to a port of the
protocol proxy (`harness.protocol.proxy`), which replaces the addresses in the broker's responses. So a client never
learns the broker's real address.

The run owns the topics, groups and transactional ids that begin with its tag. It reads, changes and checks nothing
else. No fault stops the brokers. With `permits=links`, faults can concern the links of the run's own clients, and with
`permits=topics` they can add partitions to the run's own topics.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from harness.cluster import Ability, Broker, ClusterSpec, Need, PartitionView, admin, operations
from harness.cluster.admin import NO_BROKER
from harness.cluster.connecting import (
    ALTER,
    ANSWER_TIMEOUT_S,
    CLEAN_UP_TIMEOUT_S,
    Forbidden,
    ask_any,
    bootstrap_servers,
    explain_hidden,
    reach_brokers,
    retry_unless_forbidden,
)
from harness.cluster.proxies import ProtocolProxy, ToxiproxyServer, end_proxies
from harness.cluster.questions import ClusterQueries, retry
from harness.common.errors import EnvironmentFailure, FaultFailed, UsageError
from harness.common.waiting import wait_for
from harness.model.pipeline import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition, TopicSpec
from harness.network import EFFECTS, Network, client_link, proxy_name
from harness.network.networks import NoNetwork, ProxiedNetwork
from harness.network.toxiproxy import HOST, Proxy
from harness.processes.spawn import Supervisor
from harness.protocol.proxy import ProxyLink
from harness.settings.kinds import prefix_of
from harness.wire.protocol import Address, Target, WireError, is_answering
from harness.witness.fetch_witness import FetchWitness, RunBatches

_log = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 2.0
"""Longer than for a local cluster, because a remote broker needs several round trips for TLS and SASL."""
INTERNAL = (TRANSACTION_STATE, CONSUMER_OFFSETS)
T = TypeVar("T")


@dataclass
class ClientLinks:
    """The processes that carry the links. Call `start`, then `end`. `end` may be called at any time."""

    endpoints: tuple[str, ...]
    folder: Path  # their logs and the journal of the protocol proxy are written here
    toxiproxy: Path  # the binary
    clients_jar: Path  # the jar of `kafka-clients`
    supervisor: Supervisor
    next_port: Callable[[], int]

    def __post_init__(self) -> None:
        self._ports: dict[str, dict[int, int]] = {}
        self._server: ToxiproxyServer | None = None
        self._proxy: ProtocolProxy | None = None

    def start(self, brokers: Mapping[int, Address], client_config: str | None) -> ProxiedNetwork:
        """Start toxiproxy and the protocol proxy for all endpoints and brokers. Raises `EnvironmentFailure`."""
        self._ports = {
            endpoint: {broker: self.next_port() for broker in brokers} for endpoint in self.endpoints
        }
        behind = [
            ProxyLink(
                name=client_link(endpoint, broker),
                port=self.next_port(),
                broker=(address.host, address.port),
                dial=self._ports[endpoint],
            )
            for endpoint in self.endpoints
            for broker, address in brokers.items()
        ]
        links = {
            link.name: Proxy(proxy_name(link.name), listen_port, link.port)
            for link, listen_port in zip(
                behind, (port for ports in self._ports.values() for port in ports.values()), strict=True
            )
        }
        config = Path(client_config) if client_config else None
        proxy = self._proxy = ProtocolProxy(self.clients_jar, self.folder, behind, config)
        proxy.start(self.supervisor)
        wait_for(
            lambda: all(is_answering(link.port, PROBE_TIMEOUT_S) for link in behind[: len(brokers)]),
            "every broker to answer through the proxies",
            START_TIMEOUT_S,
            last_seen=proxy.last_line,
        )
        self._server = ToxiproxyServer(self.toxiproxy, self.next_port(), self.folder)
        api = self._server.start(self.supervisor, links.values())
        return ProxiedNetwork(api, self._server, links, PROBE_TIMEOUT_S, proxy)

    def bootstrap_for(self, endpoint: str) -> str:
        """Return the bootstrap addresses of a client endpoint. Raises `UsageError` if there is no such endpoint."""
        if endpoint not in self._ports:
            raise UsageError(f"this cluster has no client endpoint {endpoint}")
        return ",".join(f"{HOST}:{port}" for port in self._ports[endpoint].values())

    def end(self) -> None:
        """End both processes. Failures are logged."""
        end_proxies(self._proxy, self._server)


class ExternalCluster(ClusterQueries):
    """A `Cluster` that other programs may use too.

    Entering it waits until every broker has answered. Leaving it removes the topics and groups of the run,
    unless topics are kept.
    """

    brokers: Sequence[Broker] = ()  # empty, because no fault may stop a broker

    def __init__(
        self, spec: ClusterSpec, links: ClientLinks | None = None, *, may_add_partitions: bool = False
    ) -> None:
        """Keep the arguments.

        Args:
            spec: The cluster that the run needs.
            links: The links of the run's clients. None if faults may not cut links.
            may_add_partitions: Whether faults may add partitions to the run's topics.
        """
        super().__init__({}, {}, lambda broker: True)
        self._spec = spec
        self._links = links
        self.network: Network = NoNetwork()
        self.abilities: frozenset[Need] = frozenset(
            {*(EFFECTS if links else ()), *([Ability.ADD_PARTITIONS] if may_add_partitions else [])}
        )
        self._created_topics: list[str] = []
        # The end offsets of the internal topics before the run.
        self._internal_starts: dict[TopicPartition, int] = {}
        self._unreadable: dict[str, str] = {}
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
        """Remove the topics and groups of the run. Failures are logged."""
        if self._links is not None:
            self._links.end()
        if self._spec.keep_topics:
            return
        removals: list[tuple[str, Callable[[], None]]] = []
        if self._created_topics:
            delete = partial(operations.delete_topics, timeout_s=CLEAN_UP_TIMEOUT_S)
            removals.append(
                ("the topics", lambda: self._ask_any(lambda broker: delete(broker, self.topics())))
            )
        removals += [
            (f"the group {group}", partial(self._delete_group, group)) for group in self._spec.groups
        ]
        for name, remove in removals:
            try:
                remove()
            except EnvironmentFailure as failure:
                _log.error(
                    "%s of the run could not be deleted: %s; run `fencepost clean --cluster external` later",
                    name,
                    failure,
                )

    def witness(self) -> FetchWitness:
        """Return a witness that fetches from the leaders. It stores only the run's batches of internal topics."""
        if self._witness is None:
            run_batches = RunBatches(self._spec.tag, self._spec.groups)
            self._witness = FetchWitness(self._brokers, run_batches, self._unreadable)
        return self._witness

    def bootstrap_for(self, endpoint: str) -> str:
        """Return the addresses of the endpoint's proxies. Without proxies: the bootstrap servers."""
        return self._links.bootstrap_for(endpoint) if self._links else self.bootstrap

    def controller(self) -> int:
        """Return the broker that accepts requests for the controller."""
        return self._view(()).controller

    def describe(self, topic: str) -> Mapping[int, PartitionView]:
        """Return a topic's partitions. Empty if there is no such topic, or if ACLs hide it."""
        return self._view((topic,)).topics.get(topic, {})

    def create_topics(self, specs: Sequence[TopicSpec], timeout_s: float) -> None:
        """Create topics and both internal topics, and read the end offsets of the internal ones.

        Raises `EnvironmentFailure`.
        """
        names = [topic.name for topic in specs]
        if existing := sorted(self._view(names).topics):
            raise EnvironmentFailure(
                f"the topic {existing[0]} exists already, but this run did not create it: run again"
            )
        self._created_topics = names  # even if the request fails, the topics may exist
        create = partial(operations.create_topics, topics=specs, timeout_s=timeout_s)
        try:
            self._ask_any_with_rights(create, "Create", self._spec.tag)
        except Forbidden:
            self._created_topics = []
            raise
        keys = [(admin.TRANSACTION, self._spec.tag), *((admin.GROUP, group) for group in self._spec.groups)]
        for kind, key in keys:
            self._ask_any_with_rights(partial(admin.find_coordinator, key=key, kind=kind), "Describe", key)
        self.await_in_sync(timeout_s, names)
        view = self._view(INTERNAL)
        for topic in INTERNAL:
            if topic not in view.topics:
                self._unreadable[topic] = explain_hidden(topic, view.topic_errors.get(topic))
        for partition, (_, _, high) in self.log_offsets([t for t in INTERNAL if t in view.topics]).items():
            self._internal_starts[partition] = high

    def txn_coordinator(self, transactional_id: str) -> int:
        """Ask a broker for the coordinator of a transactional id. -1 if there is none."""
        return self._coordinator(transactional_id, admin.TRANSACTION)

    def group_coordinator(self, group: str) -> int:
        """Ask a broker for the coordinator of a group. -1 if there is none."""
        return self._coordinator(group, admin.GROUP)

    def out_of_sync(self, topics: Collection[str] | None = None) -> list[str]:
        """Describe each problem of these topics. None: of the run's own topics. Other topics are not checked."""
        view = self._view(topics or self._created_topics)
        problems = [
            f"{topic} does not exist"
            for topic in sorted(set(topics or self._created_topics) - view.topics.keys())
        ]
        for topic, partitions in sorted(view.topics.items()):
            for number, partition in sorted(partitions.items()):
                if partition.leader == NO_BROKER:
                    problems.append(f"{topic}/{number} has no leader")
                out_of_sync = sorted(set(partition.replicas) - set(partition.isr))
                problems += [f"{topic}/{number} lacks broker {broker}" for broker in out_of_sync]
        return problems

    def topics(self) -> tuple[str, ...]:
        """Return the topics that the run created, and the topics with its tag that its programs created."""
        stem = f"{self._spec.tag}-"
        view = retry(
            lambda: self._ask_any(lambda broker: admin.fetch_view(broker, ANSWER_TIMEOUT_S)),
            "the cluster's topics",
        )
        return tuple(
            sorted({*self._created_topics, *(topic for topic in view.topics if topic.startswith(stem))})
        )

    def log_offsets(self, topics: Sequence[str]) -> Mapping[TopicPartition, tuple[int, int, int]]:
        """Return for each partition: log start, last stable offset, high watermark.

        For internal topics, the log start is the end offset before the run. Their last stable offset is the high
        watermark, because open transactions of other programs do not concern the run.
        """
        offsets = super().log_offsets([topic for topic in topics if topic not in self._unreadable])
        return {
            partition: (max(start, self._internal_starts.get(partition, start)), high, high)
            if partition[0] in INTERNAL
            else (start, stable, high)
            for partition, (start, stable, high) in offsets.items()
        }

    def add_partitions(self, topic: str, count: int) -> None:
        """Raise the number of partitions of a topic of the run to `count`.

        Raises `FaultFailed` for a topic of others or without the permission, and `Forbidden` if ACLs forbid it.
        """
        if Ability.ADD_PARTITIONS not in self.abilities:
            raise FaultFailed(f"{topic} was not changed: on this cluster one cannot {Ability.ADD_PARTITIONS}")
        if topic not in self.topics():
            raise FaultFailed(f"{topic} was not changed, because it is not a topic of this run")
        self._ask_any_with_rights(lambda broker: self._add_partitions(broker, topic, count), ALTER, topic)

    def compacted(self, topics: Sequence[str]) -> Mapping[str, bool]:
        """Return True for internal topics. The run creates its own topics without compaction."""
        return {topic: topic in INTERNAL for topic in topics}

    def _current(self) -> admin.BrokerView:
        return self._view((*self._created_topics, *INTERNAL))

    def _view(self, topics: Collection[str]) -> admin.BrokerView:
        return retry(
            lambda: self._ask_any(lambda broker: admin.fetch_view(broker, ANSWER_TIMEOUT_S, topics)),
            "a broker's view",
        )

    def _ask_any(self, question: Callable[[Target], T]) -> T:
        return ask_any(self._brokers, question)

    def _ask_any_with_rights(self, question: Callable[[Target], T], operation: str, name: str) -> T:
        return retry_unless_forbidden(
            lambda: self._ask_any(question), operation, name, prefix_of(self._spec.tag)
        )

    def _coordinator(self, key: str, kind: int) -> int:
        try:
            return self._ask_any(lambda broker: admin.find_coordinator(broker, key, kind))
        except WireError:
            return NO_BROKER

    def _why_no_coordinator(self, group: str) -> str:
        """Say what a broker answered to a FindCoordinator request."""
        try:
            coordinator = self._ask_any(lambda broker: admin.find_coordinator(broker, group, admin.GROUP))
        except WireError as error:
            return str(error)
        return f"a FindCoordinator request was answered with broker {coordinator}"

    def _delete_group(self, group: str) -> None:
        coordinator = self.group_coordinator(group)
        if coordinator != NO_BROKER:
            operations.delete_group(self._brokers[coordinator], group)
