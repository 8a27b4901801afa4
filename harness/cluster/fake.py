"""A cluster without Kafka, for unit tests and for whoever writes a fault.

Leaders move when a broker goes, and come back in sync when it returns, at once and in memory. What a real cluster
does wrong can be asked for: leaders that stay, heals that fail, brokers that do not come back.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from harness.cluster import Ability, PartitionView, TransactionView
from harness.errors import FaultFailed, WaitTimeout
from harness.network.fake import FakeNetwork
from harness.network.links import between, client_link
from harness.pipeline import Place, TopicFacts
from harness.witness.request_log import Heard, Spoken


@dataclass
class FakeBroker:
    """A broker that is up, paused or dead."""

    id: int
    cluster: "FakeCluster"
    pid: int = 4700
    state: str = "up"
    log_file: Path = Path("nowhere")

    @property
    def running(self) -> bool:
        """Whether it is up."""
        return self.state == "up"

    def log_bytes(self, place: Place) -> int:
        """The leader's is longer, unless the cluster is idle."""
        return 100 + 50 * (self.cluster.busy and self.cluster.leader_of(f"{place[0]}/{place[1]}") == self.id)

    def kill(self) -> str:
        """It is gone, and its roles pass to others."""
        self._leave("dead")
        return f"process {self.pid} ended by SIGKILL"

    def stop(self) -> str:
        """As `kill`, in order."""
        self._leave("dead")
        return f"process {self.pid} ended with status 0"

    def pause(self) -> str:
        """It stands still, and its roles pass to others."""
        self._leave("paused")
        return f"process {self.pid} stopped by SIGSTOP"

    def resume(self) -> str:
        """It goes on; raises `FaultFailed` where healing is to fail."""
        self._return()
        return f"process {self.pid} continued by SIGCONT"

    def start(self) -> None:
        """It is up again; raises `FaultFailed` where healing is to fail."""
        self._return()

    def _leave(self, state: str) -> None:
        self.state = state
        if self.cluster.moves:
            self.cluster.move_from(self.id)

    def _return(self) -> None:
        if self.cluster.heal_fails:
            raise FaultFailed(f"broker {self.id} does not come back")
        self.state = "up"


def around_all(size: int) -> list[str]:
    """Every link between brokers."""
    return [link for one, other in combinations(range(1, size + 1), 2) for link in between(one, other)]


@dataclass
class FakeCluster:
    """A `Cluster` in memory."""

    size: int = 3
    moves: bool = True  # roles pass to another broker when theirs goes
    heal_fails: bool = False
    stays_out_of_sync: bool = False
    busy: bool = True  # leaders take records that followers do not have
    can: frozenset[Ability] = frozenset(Ability)
    network: FakeNetwork = field(default_factory=FakeNetwork)
    bootstrap: str = "nowhere:9092"
    created: list[TopicFacts] = field(default_factory=list)
    transactions: dict[str, list[TransactionView]] = field(
        default_factory=dict
    )  # by id, what is said of it at each look, the last of them for ever
    offsets: dict[str, dict[Place, int]] = field(default_factory=dict)  # committed, by group
    soon: dict[str, dict[Place, int]] = field(default_factory=dict)  # the same, after the next question
    groups: dict[str, list[tuple[str, ...] | None]] = field(
        default_factory=dict
    )  # who is in it at each look, the last of them for ever
    asked: dict[str, Heard] = field(default_factory=dict)  # by client slot, what it is heard to ask
    records_on: bool = False  # brokers do not stop to record requests
    recording: list[bool] = field(default_factory=list)  # each time that it was turned on or off
    ends: dict[Place, tuple[int, int, int]] = field(
        default_factory=dict
    )  # start, last stable, high watermark

    def __post_init__(self) -> None:
        self.brokers = [FakeBroker(number, self, 4700 + number) for number in range(1, self.size + 1)]
        self._leader: dict[str, int] = {}
        clients = [client_link(f"w{n}", broker.id) for n in range(8) for broker in self.brokers]
        self.network.links = self.network.links or [*around_all(self.size), *clients]

    def bootstrap_for(self, slot: str) -> str:
        """One address for all."""
        return self.bootstrap

    def witness(self) -> None:
        """There are no logs."""

    def create_topics(self, topics: Sequence[TopicFacts], timeout_s: float) -> None:
        """Note them."""
        self.created += topics

    def describe(self, topic: str) -> Mapping[int, PartitionView]:
        """One view for each partition of a topic that was created."""
        ids = tuple(broker.id for broker in self.brokers)
        up = tuple(broker.id for broker in self.brokers if broker.running)
        return {
            number: PartitionView(self.leader_of(f"{topic}/{number}"), ids, up, topic)
            for made in self.created
            if made.name == topic
            for number in range(made.partitions)
        }

    def leader_of(self, role: str) -> int:
        """Who fills a role."""
        return self._leader.setdefault(role, 1)

    def move_from(self, broker: int) -> None:
        """Give every role of a broker to the next one that is up; -1 if there is none."""
        up = [one.id for one in self.brokers if one.running]
        for role, leader in self._leader.items():
            if leader == broker:
                self._leader[role] = up[0] if up else -1

    def controller(self) -> int:
        """Who leads the quorum."""
        return self.leader_of("controller")

    def txn_coordinator(self, transactional_id: str) -> int:
        """Who coordinates an id."""
        return self.leader_of(f"txn {transactional_id}")

    def transaction(self, transactional_id: str) -> TransactionView | None:
        """As it was set."""
        told = self.transactions.get(transactional_id, [])
        return told.pop(0) if len(told) > 1 else next(iter(told), None)

    def group_coordinator(self, group: str) -> int:
        """Who coordinates a group."""
        return self.leader_of(f"group {group}")

    def offsets_place(self, group: str) -> Place:
        """Where a group's offsets stand."""
        return "__consumer_offsets", 0

    def out_of_sync(self, topics: Collection[str] | None = None) -> list[str]:
        """What is not up."""
        down = [f"broker {broker.id} is not running" for broker in self.brokers if not broker.running]
        return down + (["x/0 lacks broker 1"] if self.stays_out_of_sync else [])

    def await_in_sync(self, timeout_s: float, topics: Collection[str] | None = None) -> None:
        """At once, or never."""
        if missing := self.out_of_sync(topics):
            raise WaitTimeout("every ISR to be full", timeout_s, "; ".join(missing))

    def last_stable(self, topics: Sequence[str]) -> Mapping[Place, tuple[int, int, int]]:
        """As it was set."""
        return {place: ends for place, ends in self.ends.items() if place[0] in topics}

    def compacted(self, topics: Sequence[str]) -> Mapping[str, bool]:
        """None is."""
        return dict.fromkeys(topics, False)

    def committed(self, group: str) -> Mapping[Place, int]:
        """As it was set."""
        told = self.offsets.get(group, {})
        self.offsets[group] = self.soon.pop(group, told)
        return told

    def topics(self) -> tuple[str, ...]:
        """None that nobody knows."""
        return ()

    def members(self, group: str) -> tuple[str, ...] | None:
        """As it was set; nobody, where nothing was."""
        told = self.groups.get(group, [()])
        return told.pop(0) if len(told) > 1 else told[0]

    def finalized(self) -> Mapping[str, int]:
        """That of a new cluster."""
        return {"metadata.version": 1, "transaction.version": 2}

    def heard(self, slot: str) -> Heard:
        """As it was set, while it records."""
        return self.asked.get(slot, Heard()) if self.recording[-1:] == [True] else Heard()

    def record_requests(self, on: bool, whose: str = "the run's") -> None:
        """Note it, or refuse to stop."""
        self.recording.append(on)
        if not on and self.records_on:
            raise WaitTimeout("a broker to write no more", 0.0, "")

    @contextmanager
    def isolate(self, broker: int, how: Ability) -> Iterator[Callable[[], str]]:
        """As a pause; the network's `proof` is its proof too."""
        one = self.brokers[broker - 1]
        one.pause()
        yield lambda: self.network.proof
        one.resume()

    def spoken(self, slots: Sequence[str]) -> Spoken:
        """One request, once that was recorded."""
        return Spoken({"EndTxn": [1]}, ["fake 1"]) if True in self.recording else Spoken()
