"""Kafka clusters behind one interface: `local` runs JVM processes, others follow.

A cluster is a context manager with a few verbs. Everything that a fault needs to know of it (who
leads what, who coordinates whom, where the data lies, who is in sync in whose view) is asked here,
on connections that no fault can cut.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class TopicSpec:
    """A topic that a run needs before its clock starts."""

    name: str
    partitions: int = 6
    replication: int = 3
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterSpec:
    """What a cluster has to be; all of it stands in a run's `test.toml`."""

    brokers: int = 3
    slots: tuple[str, ...] = ()  # each has a client listener of its own on every broker, through proxies
    kafka: str = "4.3.1"
    java: str = "auto"  # auto, bundled, or the path of a Java home
    toxiproxy: str = "auto"  # auto, bundled, or the path of a binary
    settings: Mapping[str, str] = field(default_factory=dict)  # on top of the house's own
    heap_mb: int = 256


@dataclass(frozen=True)
class PartitionView:
    """What one broker says of a partition."""

    leader: int  # -1: none
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    topic_id: str


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
    def data_dir(self) -> Path:
        """Where the partitions' folders lie."""
        ...

    @property
    def log_file(self) -> Path:
        """What the broker itself printed."""
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
    def brokers(self) -> Sequence[Broker]: ...
    @property
    def bootstrap(self) -> str:
        """The harness's own listener on every broker, which no proxy stands before."""
        ...

    def bootstrap_for(self, slot: str) -> str:
        """The listener of one client slot, behind proxies of its own."""
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

    def group_coordinator(self, group: str) -> int:
        """The broker that leads the group's partition of `__consumer_offsets`; -1: none."""
        ...

    def out_of_sync(self) -> list[str]:
        """What is not as it should be, in every live broker's own view; empty: all is well.

        Sentences such as `orders/3 lacks broker 2 in broker 1's view`, `broker 3 does not answer`.
        """
        ...

    def await_in_sync(self, timeout_s: float) -> None:
        """Wait until every broker is up and every ISR is full in every broker's own view."""
        ...

    def last_stable(self, topics: Sequence[str]) -> Mapping[tuple[str, int], tuple[int, int, int]]:
        """By (topic, partition): log start, last stable offset, high watermark."""
        ...

    def committed(self, group: str) -> Mapping[tuple[str, int], int]:
        """A group's committed offsets by (topic, partition)."""
        ...


class Network(Protocol):
    """The links of a cluster, each through proxies of its own."""

    @property
    def alive(self) -> bool:
        """Whether what carries the links still runs."""
        ...

    def cut_peers(self, one: int, other: int) -> AbstractContextManager["Cut"]:
        """Cut two brokers from each other, both ways; what is in flight is lost."""
        ...

    def isolate(self, broker: int) -> AbstractContextManager["Cut"]:
        """Cut a broker from all its peers, both ways."""
        ...

    def cut_client(self, slot: str, broker: int) -> AbstractContextManager["Cut"]:
        """Cut a client slot from a broker, both ways."""
        ...

    def heal(self) -> None:
        """Remove every cut; idempotent."""
        ...


class Cut(Protocol):
    """A cut that is on, or was."""

    @property
    def links(self) -> Sequence[str]: ...
    def evidence(self) -> str:
        """How it is known that nothing passes: asked while the cut is on; empty if it leaks.

        Says for each link whether a connection stood on it when it was cut, and that a probe
        through the proxy stayed without an answer.
        """
        ...
