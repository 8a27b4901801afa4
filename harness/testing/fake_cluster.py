"""`FakeCluster`: a `Cluster` in memory, for tests of faults.

When a broker stops, another broker gets its roles at once. When it returns, it is in sync at once. The fields of
`FakeCluster` simulate the failures of a real cluster: leaders that do not move, brokers that do not come back.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, cast

from harness.cluster import ALL_ABILITIES, Ability, Need, PartitionView, TransactionView
from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.pipeline import TopicPartition, TopicSpec
from harness.network import client_link, links_between
from harness.processes.preload import Preload
from harness.runner.nemesis import FaultContext
from harness.runner.processes import Processes
from harness.testing.fake_network import FakeNetwork

COORDINATED = {"__transaction_state": "txn ", "__consumer_offsets": "group "}
"""By internal topic: how the roles begin that a leader of one of its partitions has."""
WEEK_MS = "604800000"


class FakePreload(Preload):
    """Keeps the changes of a clock and a disk. Each fsync of its process is delayed at once."""

    def __init__(self) -> None:
        self.env = {}
        self.disk_fails = False
        self.failed_calls = 0
        self.delayed: tuple[int, float] = (0, 0.0)
        self._clock = (0.0, 1.0, time.monotonic())

    def set_clock(self, ahead_s: float = 0.0, rate: float = 1.0) -> None:
        """Keep the clock."""
        self._clock = (ahead_s, rate, time.monotonic())

    def ahead_s(self) -> float:
        """Return how far the clock is ahead of the clock of this machine now."""
        ahead_s, rate, since_s = self._clock
        return ahead_s + (rate - 1) * (time.monotonic() - since_s)

    def delay_syncs(self, delay_s: float) -> None:
        """Count one call."""
        if delay_s:
            self.delayed = (self.delayed[0] + 1, self.delayed[1] + delay_s)

    @property
    def delayed_syncs(self) -> tuple[int, float]:
        """How many syncs were delayed, and how long."""
        return self.delayed

    def fail_syncs(self, failing: bool) -> None:
        """Let the disk fail, or work again."""
        self.disk_fails = failing

    def fail_writes(self, failing: bool) -> None:
        """Let the disk fail, or work again."""
        self.disk_fails = failing

    @property
    def failed_syncs(self) -> int:
        """How many calls failed."""
        return self.failed_calls

    @property
    def failed_writes(self) -> int:
        """How many calls failed."""
        return self.failed_calls

    def synced_bytes(self) -> dict[int, int]:
        """Return a file that is none of the broker's."""
        return {0: 0}


@dataclass
class FakeBroker:
    """A broker that is up, paused or dead."""

    id: int
    cluster: "FakeCluster"
    pid: int = 4700
    state: str = "up"
    log_file: Path = Path(os.devnull)
    kafka: str = "4.3.1"
    next_kafka: str = "4.3.1"
    rolled: int = 0  # the number of segments that it has rolled
    data_dir: Path = Path(os.devnull)
    preload: FakePreload = field(default_factory=FakePreload)

    @property
    def running(self) -> bool:
        """True if the broker is up. A broker whose disk fails ends at once."""
        if self.preload.disk_fails and self.state == "up":
            self.preload.failed_calls += 1
            self._leave("dead")
        return self.state == "up"

    def log_bytes(self, topic_partition: TopicPartition) -> int:
        """Return the size of a log: 150 if the cluster is `busy` and this broker leads the partition, else 100."""
        return 100 + 50 * (
            self.cluster.busy
            and self.cluster.leader_of(f"{topic_partition[0]}/{topic_partition[1]}") == self.id
        )

    def segments(self, topic_partition: TopicPartition) -> int:
        """Return 1. If `segment.ms` of the topic is short and the cluster is `busy`, return one more for each call."""
        segment_ms = self.cluster.settings.get(topic_partition[0], {}).get("segment.ms", WEEK_MS)
        self.rolled += self.cluster.busy and int(segment_ms) < int(WEEK_MS)
        return 1 + self.rolled

    def kafka_version(self) -> str:
        """Return the version of its last start."""
        return self.kafka

    def kill(self) -> str:
        """Stop the broker. Another broker gets its roles."""
        self._leave("dead")
        return f"process {self.pid} ended by SIGKILL"

    def stop(self) -> str:
        """Stop the broker as `kill` does, and return the words for a normal end."""
        self._leave("dead")
        return f"process {self.pid} ended with status 0"

    def pause(self) -> str:
        """Pause the broker. Another broker gets its roles."""
        self._leave("paused")
        return f"process {self.pid} stopped by SIGSTOP"

    def resume(self) -> str:
        """Resume the broker. Raises `FaultFailed` if the cluster has `heal_fails`."""
        self._return()
        return f"process {self.pid} continued by SIGCONT"

    def start(self) -> None:
        """Start the broker again. Raises `FaultFailed` if the cluster has `heal_fails`."""
        self._return()

    def _leave(self, state: str) -> None:
        self.state = state
        if self.cluster.moves:
            self.cluster.move_from(self.id)

    def _return(self) -> None:
        if self.cluster.heal_fails:
            raise FaultFailed(f"broker {self.id} does not come back")
        if self.state == "dead":
            self.pid += 100
            self.kafka = self.next_kafka
        self.state = "up"


def level_of(version: str) -> int:
    """Return a level of `metadata.version` for each version of Kafka: 31 for 4.3.1."""
    major, minor, _ = version.split(".")
    return 10 * int(major) - 12 + int(minor)


def links_between_all(size: int) -> list[str]:
    """Return every link between brokers."""
    return [
        link for first, second in combinations(range(1, size + 1), 2) for link in links_between(first, second)
    ]


@dataclass
class FakeCluster:
    """A `Cluster` in memory."""

    size: int = 3
    # Another broker gets the roles of a broker that stops, and the cluster does what it is asked to.
    moves: bool = True
    heal_fails: bool = False  # a broker that stopped does not start again
    stays_out_of_sync: bool = False  # `await_in_sync` raises `WaitTimeout`
    busy: bool = True  # the log of a leader is longer than the logs of its followers
    abilities: frozenset[Need] = ALL_ABILITIES
    network: FakeNetwork = field(default_factory=FakeNetwork)
    bootstrap: str = "nowhere:9092"
    created: list[TopicSpec] = field(default_factory=list)
    clocks_stay: bool = False  # changes of clocks have no effect
    # By transactional id: one result for each call of `describe_transaction`. The last one repeats.
    transactions: dict[str, list[TransactionView]] = field(default_factory=dict)
    # By group: its committed offsets.
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    # By group: the new value of `offsets` after the next call of `committed_offsets`.
    next_offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    # By group: its members for each call of `members`. The last one repeats.
    groups: dict[str, list[tuple[str, ...] | None]] = field(default_factory=dict)
    assignments: dict[str, frozenset[TopicPartition] | None] = field(default_factory=dict)  # by group
    # By partition: log start, last stable offset, high watermark.
    ends: dict[TopicPartition, tuple[int, int, int]] = field(default_factory=dict)
    # The replicas of partitions that were reassigned. Others have a replica on each broker.
    replicas: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)  # by topic
    features: dict[str, int] = field(
        default_factory=lambda: {"metadata.version": 31, "transaction.version": 2}
    )

    def __post_init__(self) -> None:
        self.brokers = [FakeBroker(number, self, 4700 + number) for number in range(1, self.size + 1)]
        self._leader: dict[str, int] = {}
        clients = [client_link(f"w{n}", broker.id) for n in range(8) for broker in self.brokers]
        self.network.links = self.network.links or [*links_between_all(self.size), *clients]

    def bootstrap_for(self, endpoint: str) -> str:
        """Return `bootstrap`."""
        return self.bootstrap

    def witness(self) -> None:
        """Return None: a cluster in memory has no logs."""

    def create_topics(self, topics: Sequence[TopicSpec], timeout_s: float) -> None:
        """Add the topics to `created`."""
        self.created += topics

    def describe(self, topic: str) -> Mapping[int, PartitionView]:
        """Return the `PartitionView` of each partition of a topic in `created`. An internal topic has one."""
        ids = tuple(broker.id for broker in self.brokers)
        up = tuple(broker.id for broker in self.brokers if broker.running)
        counts = [1] * (topic in COORDINATED) + [
            spec.partitions for spec in self.created if spec.name == topic
        ]
        return {
            number: PartitionView(
                self.leader_of(f"{topic}/{number}"), self.replicas.get((topic, number), ids), up, topic
            )
            for number in range(max(counts, default=0))
        }

    def leader_of(self, role: str) -> int:
        """Return the number of the broker with a role: `controller`, `out/0`, `txn shop-1`, `group shop`."""
        return self._leader.setdefault(role, 1)

    def move_from(self, broker: int) -> None:
        """Give every role of a broker to the first broker that is up, or to -1 if there is none."""
        up = [candidate.id for candidate in self.brokers if candidate.running]
        for role, leader in self._leader.items():
            if leader == broker:
                self._leader[role] = up[0] if up else -1

    def controller(self) -> int:
        """Return the broker with the role `controller`."""
        return self.leader_of("controller")

    def txn_coordinator(self, transactional_id: str) -> int:
        """Return the broker with the role `txn ID`."""
        return self.leader_of(f"txn {transactional_id}")

    def describe_transaction(self, transactional_id: str) -> TransactionView | None:
        """Return the next of `transactions`."""
        views = self.transactions.get(transactional_id, [])
        return views.pop(0) if len(views) > 1 else next(iter(views), None)

    def group_coordinator(self, group: str) -> int:
        """Return the broker with the role `group NAME`."""
        return self.leader_of(f"group {group}")

    def offsets_partition(self, group: str) -> TopicPartition:
        """Return partition 0 of __consumer_offsets."""
        return "__consumer_offsets", 0

    def transactions_partition(self, transactional_id: str) -> TopicPartition:
        """Return partition 0 of __transaction_state."""
        return "__transaction_state", 0

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Set the replicas of partitions at once. If the leader is none of them, the first one leads."""
        if not self.moves:
            return
        self.replicas |= {partition: tuple(brokers) for partition, brokers in replicas.items()}
        left = [(topic, n) for (topic, n), to in replicas.items() if self.leader_of(f"{topic}/{n}") not in to]
        self.elect_preferred(left)

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> None:
        """Let the first replica lead at once. For an internal topic, it gets all roles of coordinators."""
        for topic, number in partitions if self.moves else ():
            prefix = COORDINATED.get(topic, "no role")
            roles = [f"{topic}/{number}", *(role for role in self._leader if role.startswith(prefix))]
            self._leader |= dict.fromkeys(roles, self.describe(topic)[number].replicas[0])

    def alter_topic(self, topic: str, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Set settings of a topic at once. A setting that it does not have had the value `WEEK_MS`."""
        present = self.settings.setdefault(topic, {})
        before = {name: present.get(name, WEEK_MS) for name in settings}
        present |= settings
        return before

    def add_partitions(self, topic: str, count: int) -> None:
        """Raise the number of partitions of a topic in `created` at once, if the cluster `moves`."""
        if self.moves:
            self.created[:] = [
                replace(spec, partitions=max(count, spec.partitions)) if spec.name == topic else spec
                for spec in self.created
            ]

    def describe_by_broker(self, topic: str) -> Mapping[int, Mapping[int, PartitionView]]:
        """Return the result of `describe` for each broker that is up."""
        return {broker.id: self.describe(topic) for broker in self.brokers if broker.running}

    def out_of_sync(self, topics: Collection[str] | None = None) -> list[str]:
        """Name the brokers that are not up."""
        down = [f"broker {broker.id} is not running" for broker in self.brokers if not broker.running]
        return down + (["x/0 lacks broker 1"] if self.stays_out_of_sync else [])

    def await_in_sync(self, timeout_s: float, topics: Collection[str] | None = None) -> None:
        """Return at once, or raise `WaitTimeout` at once if a replica is out of sync."""
        if missing := self.out_of_sync(topics):
            raise WaitTimeout("every ISR to be full", timeout_s, "; ".join(missing))

    def log_offsets(self, topics: Sequence[str]) -> Mapping[TopicPartition, tuple[int, int, int]]:
        """Return the values in `ends`."""
        return {
            topic_partition: ends
            for topic_partition, ends in self.ends.items()
            if topic_partition[0] in topics
        }

    def clock_ahead_s(self, broker: int) -> float:
        """Return how far the clock of a broker is ahead."""
        return 0.0 if self.clocks_stay else self.brokers[broker - 1].preload.ahead_s()

    def compacted(self, topics: Sequence[str]) -> Mapping[str, bool]:
        """Return false for each topic."""
        return dict.fromkeys(topics, False)

    def committed_offsets(self, group: str) -> Mapping[TopicPartition, int]:
        """Return the value in `offsets`. Then replace it by the value in `next_offsets`, if there is one."""
        offsets = self.offsets.get(group, {})
        self.offsets[group] = self.next_offsets.pop(group, offsets)
        return offsets

    def topics(self) -> tuple[str, ...]:
        """Return an empty tuple."""
        return ()

    def members(self, group: str) -> tuple[str, ...] | None:
        """Return the next of `groups`, or no member if the test has set none."""
        members = self.groups.get(group, [()])
        return members.pop(0) if len(members) > 1 else members[0]

    def assigned(self, group: str) -> frozenset[TopicPartition] | None:
        """Return `assignments` of the group, or no partition if the test has set none."""
        return self.assignments.get(group, frozenset())

    def finalized_features(self, broker: int | None = None) -> Mapping[str, int]:
        """Return the levels in `features` that are not 0."""
        return {feature: level for feature, level in self.features.items() if level}

    def supported_features(self, broker: int) -> Mapping[str, int]:
        """Return what `features_of` returns for the version of a broker."""
        return self.features_of(self.brokers[broker - 1].kafka)

    def update_features(self, levels: Mapping[str, int]) -> None:
        """Set the levels of features at once, if the cluster `moves`."""
        self.features |= levels if self.moves else {}

    def use_kafka(self, broker: int, version: str) -> None:
        """Let a broker use another version of Kafka from its next start on, if the cluster `moves`."""
        if self.moves:
            self.brokers[broker - 1].next_kafka = version

    def features_of(self, version: str) -> Mapping[str, int]:
        """Return the level of `metadata.version` that a broker of a version supports."""
        return {"metadata.version": level_of(version)}

    @contextmanager
    def isolate(self, broker: int, how: Ability) -> Iterator[Callable[[], str]]:
        """Pause the broker until the end of the `with` block. The proof is the proof of the network."""
        target = self.brokers[broker - 1]
        target.pause()
        yield lambda: self.network.proof
        target.resume()


class NoProcesses:
    """A substitute for `Processes`, for faults that use no worker."""

    def workers(self, stage: str | None = None) -> list[Any]:
        """Return an empty list."""
        return []


def fault_context(cluster: FakeCluster, **parts: Any) -> FaultContext:
    """Return the context of a fault on this cluster, without workers unless `parts` has `processes`.

    `parts` are fields of `FaultContext`.
    """
    return FaultContext(cluster, **{"processes": cast(Processes, NoProcesses()), **parts})
