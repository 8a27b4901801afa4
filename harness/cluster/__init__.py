"""The interface of all cluster kinds, and their abilities.

`Cluster` answers the queries of faults: leaders, coordinators, in-sync replicas and log sizes. It asks the brokers on
connections that no fault can cut. `local`, `docker` and `external` implement it, and `kinds` says what each can do.
`admin`, `operations` and `questions` are requests to brokers, and `proxies` carry the links.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from harness.common.wording import join_words
from harness.environment.versions import DEFAULT_KAFKA
from harness.model.pipeline import TopicPartition, TopicSpec
from harness.model.promises import SEGMENTS
from harness.network import CONTAINER_EFFECTS, EFFECTS, LinkEffect, Network
from harness.processes.preload import Preload
from harness.witness import Witness


class Ability(StrEnum):
    """Something that a cluster kind permits. Network effects are abilities too: see `LinkEffect`.

    The value completes the sentence "a cluster on which one can ...".
    """

    KILL = "kill brokers"  # and start them again
    PAUSE = "pause brokers"  # and resume them
    PEER_LINKS = "cut brokers from each other"  # without it, only the links of clients can have effects
    SEGMENTS = "read the segment files"  # of every replica
    PACKETS = "drop packets"  # of a broker, including connection requests (SYN)
    DISCONNECT = "disconnect brokers"  # from their network
    OPERATE = "move partitions, and change settings of topics and features"
    ADD_PARTITIONS = "add partitions to topics"
    UPGRADE = "start brokers on another version of Kafka"
    CLOCKS = "change the clocks of brokers and workers"
    DISKS = "let the disks of brokers be full or slow"
    FILES = "change the files of a stopped broker"


Need = Ability | type[LinkEffect]
"""A thing that a fault may need: an ability of the cluster, or a network effect."""


def describe_needs(needs: Collection[Need]) -> str:
    """Describe needs in words that complete "a cluster on which one can ..."."""
    return join_words(
        sorted(need.value if isinstance(need, Ability) else need.action for need in needs), most=len(needs)
    )


ALL_ABILITIES: frozenset[Need] = frozenset({*Ability, *EFFECTS})
CONTAINER_ABILITIES: frozenset[Need] = frozenset({Ability.PACKETS, Ability.DISCONNECT})
"""Abilities for which each broker must have a network namespace of its own."""
PROCESS_ABILITIES = ALL_ABILITIES - CONTAINER_ABILITIES
"""The abilities of a cluster whose brokers are processes of this machine."""
MACHINE_ABILITIES: frozenset[Need] = frozenset(
    {Ability.UPGRADE, Ability.CLOCKS, Ability.DISKS, Ability.FILES}
)
"""Abilities for which the brokers must be processes of this machine."""
IMAGE_ABILITIES = ALL_ABILITIES - (EFFECTS - CONTAINER_EFFECTS) - MACHINE_ABILITIES
"""The abilities of a cluster whose brokers and toxiproxy run in containers of an image."""
PRELOADED: frozenset[Need] = frozenset({Ability.CLOCKS, Ability.DISKS})
"""Abilities that need the preloaded library in the processes."""


@dataclass(frozen=True)
class ClusterSpec:
    """The cluster that a run needs. It is stored in `run.toml`."""

    brokers: int = 3
    endpoints: tuple[str, ...] = ()  # each has its own listener on every broker, behind proxies
    kafka: str = DEFAULT_KAFKA
    java: str = "auto"  # auto, bundled, or the path of a Java home
    toxiproxy: str = "auto"  # auto, bundled, or the path of a binary
    settings: Mapping[str, str] = field(default_factory=dict)  # they override Fencepost's broker settings
    heap_mb: int = 256
    witness: str = SEGMENTS  # how the broker logs are read: segments or fetch
    # The level of the feature transaction.version (KIP-890). None: Kafka's default.
    transaction_version: int | None = None
    # How the names of the links begin that pass through the protocol proxy: `client:w`, `peer:`.
    decoded: tuple[str, ...] = ()
    # Only for an external cluster:
    bootstrap: str | None = None
    client_config: str | None = None  # the path of a file of client properties
    tag: str = ""  # the prefix of the run's topics, groups and transactional ids
    groups: tuple[str, ...] = ()  # the run's consumer groups
    keep_topics: bool = False
    permits: tuple[str, ...] = ()  # where faults may be injected: workers, links, topics


@dataclass(frozen=True)
class PartitionView:
    """A partition as one broker sees it."""

    leader: int  # -1 if there is no leader
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    topic_id: str


@dataclass(frozen=True)
class TransactionView:
    """A transaction as its coordinator sees it. `state` is one of `harness.witness.internal_topics.STATES`."""

    state: str
    producer_id: int
    epoch: int
    partitions: tuple[tuple[str, int], ...]  # the partitions in the transaction that have no marker yet

    def __str__(self) -> str:
        """Describe it for a message: "Ongoing with out/0, out/1"."""
        partitions = ", ".join(f"{topic}/{partition}" for topic, partition in self.partitions)
        return f"{self.state} with {partitions or 'no partition'}"


class Broker(Protocol):
    """One broker. The methods return after they have taken effect, or raise `FaultFailed`."""

    @property
    def id(self) -> int: ...
    @property
    def pid(self) -> int: ...
    @property
    def running(self) -> bool:
        """Whether its process exists and is not paused."""
        ...

    @property
    def log_file(self) -> Path:
        """The file with the broker's output."""
        ...

    @property
    def data_dir(self) -> Path:
        """The folder with its data. With `Ability.FILES`, a fault can change the files while the broker is stopped."""
        ...

    @property
    def preload(self) -> Preload:
        """Changes its clock and its disk, with `Ability.CLOCKS` or `Ability.DISKS`. Raises `FaultFailed` without."""
        ...

    def log_bytes(self, partition: TopicPartition) -> int:
        """Return the size of the broker's log of a partition. 0 if the broker has no replica of it."""
        ...

    def segments(self, partition: TopicPartition) -> int:
        """Return the number of segment files of the broker's log of a partition. 0 if it has no replica of it."""
        ...

    def kafka_version(self) -> str:
        """Return the version of Kafka that the broker has logged since its last start. Empty if there is none yet."""
        ...

    def kill(self) -> str:
        """Send SIGKILL. Return the proof: `process 4711 ended by SIGKILL`."""
        ...

    def stop(self) -> str:
        """Send SIGTERM and wait until the broker has shut down cleanly. Return the proof."""
        ...

    def pause(self) -> str:
        """Send SIGSTOP and wait until the kernel reports the process as stopped. Return the proof."""
        ...

    def resume(self) -> str:
        """Send SIGCONT, if the process is paused. Return the proof."""
        ...

    def start(self) -> None:
        """Start it again with its old data and ports, and wait until it answers requests.

        Do nothing if the broker runs.
        """
        ...


class Cluster(Protocol):
    """A running Kafka cluster."""

    @property
    def abilities(self) -> frozenset[Need]:
        """The abilities of the cluster, including the network effects that its links can have."""
        ...

    @property
    def network(self) -> Network:
        """The links between brokers, and from clients to brokers."""
        ...

    def witness(self) -> Witness | None:
        """Return the witness that reads the broker logs. None if they cannot be read."""
        ...

    @property
    def brokers(self) -> Sequence[Broker]: ...
    @property
    def bootstrap(self) -> str:
        """The addresses at which the harness reaches every broker, without a proxy."""
        ...

    def bootstrap_for(self, endpoint: str) -> str:
        """Return the bootstrap addresses of a client endpoint: the addresses of its proxies."""
        ...

    def create_topics(self, topics: Sequence[TopicSpec], timeout_s: float) -> None:
        """Create topics and both internal topics, and wait until all replicas are in sync."""
        ...

    def describe(self, topic: str) -> Mapping[int, PartitionView]:
        """Return the partitions of a topic by number, as the controller sees them. Empty if there is no such topic."""
        ...

    def controller(self) -> int:
        """Return the node id of the active controller."""
        ...

    def txn_coordinator(self, transactional_id: str) -> int:
        """Return the coordinator of a transactional id: the leader of its partition of `__transaction_state`.

        -1 if there is no leader.
        """
        ...

    def describe_transaction(self, transactional_id: str) -> TransactionView | None:
        """Ask the coordinator for the state of a transactional id (KIP-664).

        None if the coordinator does not know the id, or if no coordinator answers.
        """
        ...

    def group_coordinator(self, group: str) -> int:
        """Return the coordinator of a group: the leader of its partition of `__consumer_offsets`.

        -1 if there is no leader.
        """
        ...

    def offsets_partition(self, group: str) -> TopicPartition:
        """Return the partition of `__consumer_offsets` to which the group's offsets are written."""
        ...

    def transactions_partition(self, transactional_id: str) -> TopicPartition:
        """Return the partition of `__transaction_state` to which the states of the id are written."""
        ...

    def out_of_sync(self, topics: Collection[str] | None = None) -> list[str]:
        """Describe each problem that some live broker sees. Empty if there is none.

        Problems are sentences such as `orders/3 lacks broker 2 in broker 1's view` and `broker 3 does not answer`.

        Args:
            topics: Check only these topics and the internal ones. None: check all topics.
        """
        ...

    def await_in_sync(self, timeout_s: float, topics: Collection[str] | None = None) -> None:
        """Wait until every broker is up and every broker sees every ISR full. Raises `WaitTimeout`."""
        ...

    def log_offsets(self, topics: Sequence[str]) -> Mapping[tuple[str, int], tuple[int, int, int]]:
        """Return for each (topic, partition): log start, last stable offset, high watermark."""
        ...

    def clock_ahead_s(self, broker: int) -> float:
        """Return how far a broker's wall clock is ahead of the clock of this machine, by a record that it writes.

        Raises `WaitTimeout` if the broker writes none.
        """
        ...

    def compacted(self, topics: Sequence[str]) -> Mapping[str, bool]:
        """Return for each topic whether compaction may remove records, as its configuration says."""
        ...

    def committed_offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        """Return a group's committed offsets by (topic, partition)."""
        ...

    def topics(self) -> tuple[str, ...]:
        """Return the names of all topics except Kafka's internal ones."""
        ...

    def members(self, group: str) -> tuple[str, ...] | None:
        """Return the ids of a group's members. None while the group is not stable, or if no coordinator answers."""
        ...

    def assigned(self, group: str) -> frozenset[TopicPartition] | None:
        """Return the partitions that the members of a group have been assigned. None: not known."""
        ...

    def finalized_features(self, broker: int | None = None) -> Mapping[str, int]:
        """Return the level of each finalized feature: `transaction.version`, `metadata.version`, ...

        Kafka leaves out features at level 0. `broker`: the broker that is asked. None: the active controller.
        """
        ...

    def supported_features(self, broker: int) -> Mapping[str, int]:
        """Return the highest level of each feature that a broker supports."""
        ...

    def update_features(self, levels: Mapping[str, int]) -> None:
        """Set the finalized levels of features. Needs `Ability.OPERATE`."""
        ...

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Ask for these replicas of partitions, without waiting. The first one is preferred as leader.

        Needs `Ability.OPERATE`, as the next two do.
        """
        ...

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> None:
        """Let the first replica of each partition lead it. It must be in sync."""
        ...

    def alter_topic(self, topic: str, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Set settings of a topic. Return their values before."""
        ...

    def add_partitions(self, topic: str, count: int) -> None:
        """Raise a topic's number of partitions to `count`, and wait for the controller's answer.

        A topic that has as many already stays as it is. Needs `Ability.ADD_PARTITIONS`. Raises `WaitTimeout`.
        """
        ...

    def describe_by_broker(self, topic: str) -> Mapping[int, Mapping[int, PartitionView]]:
        """Return the partitions of a topic by number, as each live broker sees them.

        A broker that does not answer sees none.
        """
        ...

    def use_kafka(self, broker: int, version: str) -> None:
        """Let a broker use another version of Kafka from its next start on. Needs `Ability.UPGRADE`, as the next one.

        Raises `FaultFailed` if the run has not prepared this version.
        """
        ...

    def features_of(self, version: str) -> Mapping[str, int]:
        """Return the level of each feature that a new cluster of a version of Kafka has.

        Raises `FaultFailed` if the run has not prepared this version.
        """
        ...

    def isolate(self, broker: int, how: Ability) -> AbstractContextManager[Callable[[], str]]:
        """Isolate a broker from its network for the length of a `with`. The harness can still reach it.

        The context value is a function that returns the proof, or "" if there is none. Call it inside the `with`.
        Raises `FaultFailed`.

        Args:
            broker: The broker's node id.
            how: `Ability.PACKETS` or `Ability.DISCONNECT`.
        """
        ...
