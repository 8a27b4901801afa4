"""Kafka clusters behind one interface: `local` runs JVM processes, others follow.

A cluster is a context manager with a few verbs. Everything that a fault needs to know of it (who
leads what, who coordinates whom, where the data lies, who is in sync in whose view) is asked here,
on connections that no fault can cut.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from harness.model.pipeline import TopicSpec
from harness.model.promises import SEGMENTS
from harness.network import LinkEffect, Network
from harness.network.toxics import EFFECTS
from harness.results.wording import join_words
from harness.witness import Witness
from harness.witness.request_log import ClientVersions, ObservedClientIds


class Ability(StrEnum):
    """What can be done to a cluster, beside the effects that its links can have.

    The value completes "a cluster on which one can ...".
    """

    KILL = "kill brokers"  # and start them again
    PAUSE = "pause brokers"  # and let them go on
    PEER_LINKS = (
        "cut brokers from each other"  # links between brokers can have effects, not those of clients alone
    )
    SEGMENTS = "read the segment files"  # of every replica
    PACKETS = "drop packets"  # of a broker, connection requests among them
    DISCONNECT = "disconnect brokers"  # from the network
    REQUESTS = "record what brokers are asked"


Need = Ability | type[LinkEffect]
"""What a fault may need of a cluster: an ability, or an effect on links."""


def describe_needs(needs: Collection[Need]) -> str:
    """Name needs in words that complete "a cluster on which one can ..."."""
    return join_words(
        sorted(one.value if isinstance(one, Ability) else one.action for one in needs), most=len(needs)
    )


ALL_ABILITIES: frozenset[Need] = frozenset({*Ability, *EFFECTS})
CONTAINER_ABILITIES: frozenset[Need] = frozenset({Ability.PACKETS, Ability.DISCONNECT})
"""What needs a network of its own for each broker."""
PROCESS_ABILITIES = ALL_ABILITIES - CONTAINER_ABILITIES
"""What can be done to brokers that are processes of this machine."""


@dataclass(frozen=True)
class ClusterSpec:
    """What a cluster has to be; all of it stands in a run's `run.toml`."""

    brokers: int = 3
    endpoints: tuple[str, ...] = ()  # each has a client listener of its own on every broker, through proxies
    kafka: str = "4.3.1"
    java: str = "auto"  # auto, bundled, or the path of a Java home
    toxiproxy: str = "auto"  # auto, bundled, or the path of a binary
    settings: Mapping[str, str] = field(default_factory=dict)  # on top of the house's own
    heap_mb: int = 256
    witness: str = SEGMENTS  # how its logs are read: segments or fetch
    bootstrap: str | None = None  # of a cluster that is already there, as the rest
    client_config: str | None = None  # the path of a file that says how clients connect
    tag: str = ""  # what the run's topics and transactional ids begin with
    groups: tuple[str, ...] = ()  # the run's consumer groups
    keep_topics: bool = False
    permits: tuple[str, ...] = ()  # what of a cluster that is already there may be struck
    transaction_version: int | None = None  # of the feature transaction.version (KIP-890); None: Kafka's own


@dataclass(frozen=True)
class PartitionView:
    """What one broker says of a partition."""

    leader: int  # -1: none
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    topic_id: str


@dataclass(frozen=True)
class TransactionView:
    """What a coordinator says of a transactional id: see `harness.witness.transaction_log.STATES`."""

    state: str
    producer_id: int
    epoch: int
    partitions: tuple[tuple[str, int], ...]  # those that are enrolled and not yet marked

    def __str__(self) -> str:
        """Return it for a message: "Ongoing with out/0, out/1"."""
        partitions = ", ".join(f"{topic}/{partition}" for topic, partition in self.partitions)
        return f"{self.state} with {partitions or 'no partition'}"


class Broker(Protocol):
    """One node. Verbs return when they have taken effect, or raise `FaultFailed`."""

    @property
    def id(self) -> int: ...
    @property
    def pid(self) -> int: ...
    @property
    def running(self) -> bool:
        """Whether its process exists and is not stopped by a signal."""
        ...

    @property
    def log_file(self) -> Path:
        """What the broker itself printed."""
        ...

    def log_bytes(self, place: tuple[str, int]) -> int:
        """How long its log of a partition is; 0: it has none."""
        ...

    def kill(self) -> str:
        """SIGKILL; returns the proof: `process 4711 ended by SIGKILL`."""
        ...

    def stop(self) -> str:
        """SIGTERM, and wait for the clean end; returns the proof."""
        ...

    def pause(self) -> str:
        """SIGSTOP; returns the proof, once the kernel says that the process is stopped."""
        ...

    def resume(self) -> str:
        """SIGCONT; returns the proof. Does nothing to a process that runs."""
        ...

    def start(self) -> None:
        """Start it again on its old data and ports; returns when its process is up and answers.

        Does nothing to a broker that runs.
        """
        ...


class Cluster(Protocol):
    """A running Kafka cluster."""

    @property
    def abilities(self) -> frozenset[Need]:
        """What can be done to it, and the effects that its links can have."""
        ...

    @property
    def network(self) -> Network:
        """Its links."""
        ...

    def witness(self) -> Witness | None:
        """How its logs can be read; None: not at all."""
        ...

    @property
    def brokers(self) -> Sequence[Broker]: ...
    @property
    def bootstrap(self) -> str:
        """The harness's own listener on every broker, which no proxy stands before."""
        ...

    def bootstrap_for(self, endpoint: str) -> str:
        """The listener of one client endpoint, behind proxies of its own."""
        ...

    def create_topics(self, topics: Sequence[TopicSpec], timeout_s: float) -> None:
        """Create them, and both internal topics; returns when all replicas are in sync."""
        ...

    def describe(self, topic: str) -> Mapping[int, PartitionView]:
        """By partition, in the controller's view."""
        ...

    def controller(self) -> int: ...
    def txn_coordinator(self, transactional_id: str) -> int:
        """The broker that leads the id's partition of `__transaction_state`; -1: none."""
        ...

    def describe_transaction(self, transactional_id: str) -> TransactionView | None:
        """What its coordinator says of it now; None: nothing, or nobody coordinates it (KIP-664)."""
        ...

    def group_coordinator(self, group: str) -> int:
        """The broker that leads the group's partition of `__consumer_offsets`; -1: none."""
        ...

    def offsets_partition(self, group: str) -> tuple[str, int]:
        """The partition of `__consumer_offsets` in which the group's offsets stand."""
        ...

    def out_of_sync(self, topics: Collection[str] | None = None) -> list[str]:
        """What is not as it should be, in every live broker's own view; empty: all is well.

        `topics`: look at these alone, and at the internal ones. None: at all that there are.

        Sentences such as `orders/3 lacks broker 2 in broker 1's view`, `broker 3 does not answer`.
        """
        ...

    def await_in_sync(self, timeout_s: float, topics: Collection[str] | None = None) -> None:
        """Wait until every broker is up and every ISR is full in every broker's own view."""
        ...

    def log_offsets(self, topics: Sequence[str]) -> Mapping[tuple[str, int], tuple[int, int, int]]:
        """By (topic, partition): log start, last stable offset, high watermark."""
        ...

    def compacted(self, topics: Sequence[str]) -> Mapping[str, bool]:
        """Whether records may be compacted away, by the topics' real configuration."""
        ...

    def committed_offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        """A group's committed offsets by (topic, partition)."""
        ...

    def topics(self) -> tuple[str, ...]:
        """The names of all topics but Kafka's own."""
        ...

    def members(self, group: str) -> tuple[str, ...] | None:
        """The ids of a group's members; None while it is not stable, or nobody can say."""
        ...

    def record_requests(self, on: bool, whose: str = "the run's") -> None:
        """Have every live broker write down the requests that it answers, or write no more, unless it is to for
        somebody else as well. Raises `EnvironmentFailure` where one does not answer.
        """
        ...

    def client_ids(self, endpoint: str) -> ObservedClientIds:
        """By which names a client has spoken over its endpoint, while requests were recorded; empty where nobody has,
        or nothing can be.
        """
        ...

    def finalized_features(self) -> Mapping[str, int]:
        """The features that are in force, and at which level: `transaction.version`, `metadata.version`, ... Those at
        level 0 are left out, as Kafka does.
        """
        ...

    def isolate(self, broker: int, how: Ability) -> AbstractContextManager[Callable[[], str]]:
        """Take a broker off the network, by `PACKETS` or `DISCONNECT`, for the length of a `with`; the harness still
        reaches it. Gives what tells the proof, empty if there is none; ask while it is on. Raises `FaultFailed`.
        """
        ...

    def client_versions(self, endpoints: Sequence[str]) -> ClientVersions:
        """What was written down of these client endpoints; empty where nothing can be."""
        ...
