"""What a pipeline is to those who run it, strike it and judge it.

`PipelineUnderTest` is the interface behind every workload. What it says of itself is data (`PipelineSpec`), fixed
before the run, stored in `run.toml` as `[workload]`, and read from there by whoever judges the run later: no rule of
evidence asks which pipeline it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from harness.common.toml_tables import read_table
from harness.model.expectation import Expectation, Feed
from harness.model.goals import Goal
from harness.model.vocabulary import Guarantee, Isolation, OffsetTracking

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

TopicPartition = tuple[str, int]
"""Topic and partition."""


class RecordIdentity(StrEnum):
    """How it is known which attempt wrote a record of a topic, and from which input."""

    JOURNAL = "journal"  # its headers name the attempt, and a journal announced it
    CORRELATION = "correlation"  # a field or header that the user names
    CONTENT = "content"  # the multiset of what is due, against what stands there
    FINAL = "final"  # of each key the last record counts, and what all inputs together must lead to
    NONE = "none"


JOINED = frozenset({RecordIdentity.CORRELATION, RecordIdentity.CONTENT})
"""Records of such a topic do not bear the places of their inputs: they are joined to them by what they hold."""


@dataclass(frozen=True)
class TopicSpec:
    """A topic of the pipeline."""

    name: str
    partitions: int
    replication: int = 3
    config: Mapping[str, str] = field(default_factory=dict)
    identity: RecordIdentity = RecordIdentity.JOURNAL


TOPIC_CONFIG: Mapping[str, str] = {
    "unclean.leader.election.enable": "false",
    "retention.ms": "-1",  # time stamps may be of long ago
}
MOST_REPLICAS = 3


def durable_topic(
    name: str,
    partitions: int,
    brokers: int,
    config: Mapping[str, str] | None = None,
    identity: RecordIdentity = RecordIdentity.JOURNAL,
) -> TopicSpec:
    """A topic as durable as the brokers permit: three replicas, of which two must have what is acknowledged."""
    replication = min(MOST_REPLICAS, brokers)
    own = {**TOPIC_CONFIG, "min.insync.replicas": str(max(1, replication - 1)), **(config or {})}
    return TopicSpec(name, partitions, replication, own, identity)


@dataclass(frozen=True)
class TableSpec:
    """A table of a store: read at the end like a topic with one partition. A stage may read it, too."""

    name: str
    store: str  # which kind: `harness.databases`


@dataclass(frozen=True)
class StageSpec:
    """One stage: what it reads and writes, in which group, and what it promises."""

    name: str
    reads: tuple[str, ...]
    group: str | None = None  # for which it commits its offsets; None: it keeps them in a place of its own
    promised: str = Isolation.READ_COMMITTED.value  # the isolation that its consumers promise to read at
    ordered: bool = (
        False  # outputs of one key and output name stand in the order of their inputs of one partition
    )
    writes: tuple[str, ...] = ()
    journaled: bool = True  # its workers write down what they do, and the input ranges that they commit
    workers: tuple[str, ...] = ()
    transactional_ids: Mapping[str, str] = field(default_factory=dict)  # by worker, or by partition; {}: none
    txn_timeout_ms: int = 0  # 0: it has no transactions
    steps: tuple[str, ...] = ()  # of its loop, where a worker can be struck
    zombie_steps: tuple[
        str, ...
    ] = ()  # the steps at which it has begun what others would have to do in its place
    positions: str | None = None  # `OffsetTracking`; None: by its group, if it has one
    guarantee: str | None = None  # of what it does with each of its inputs; None: the pipeline's
    idle_s: float = (
        15.0  # who has no group and no journal has nothing left to do once it has written nothing so long
    )
    transforms: bool = True  # what it reads leads to what it writes; False: it reads and sends as it likes

    @property
    def offset_tracking(self) -> OffsetTracking:
        """How it knows which of its inputs are done."""
        if self.positions is None:
            return OffsetTracking.ELSEWHERE if self.group is None else OffsetTracking.GROUP
        return OffsetTracking(self.positions)

    def transactional_id_of(self, worker: str, places: Iterable[TopicPartition]) -> str | None:
        """The transactional id of a worker that has these input partitions in hand: its own, or a partition's."""
        named = (worker, *(f"{topic}-{number}" for topic, number in places))
        return next((self.transactional_ids[one] for one in named if one in self.transactional_ids), None)

    @property
    def unnamed(self) -> bool:
        """Whether it has transactions of whose ids nobody knows before they are spoken."""
        return not self.journaled and self.txn_timeout_ms > 0 and not self.transactional_ids

    def with_workers(self, more: Sequence[str], shared: bool) -> "StageSpec":
        """The same with more workers."""
        ids = self.transactional_ids
        own: dict[str, str] = {}
        if set(ids) == set(self.workers):  # by worker, and not by partition
            worker, id_of = next(iter(ids.items()), ("", ""))
            prefix = id_of.removesuffix(worker)  # of a shared cluster
            own = {name: id_of if shared else f"{prefix}{name}" for name in more}
        return replace(
            self,
            workers=(*self.workers, *more),
            transactional_ids={**ids, **own},
        )

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "StageSpec":
        """As `run.toml` has it. Raises KeyError, TypeError."""
        lists = ("reads", "writes", "steps", "workers", "zombie_steps")
        return read_table(cls, table, **{name: tuple(table[name]) for name in lists})


@dataclass(frozen=True)
class PipelineSpec:
    """All that others need to know of a pipeline in one run."""

    name: str
    topics: tuple[TopicSpec, ...]
    stages: tuple[StageSpec, ...]
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    goals: tuple[Goal, ...] = ()
    allowed: tuple[str, ...] = ()  # anomalies that the guarantee permits
    tables: tuple[TableSpec, ...] = ()

    @property
    def places(self) -> list[TopicPartition]:
        """All partitions of its topics."""
        return [(topic.name, number) for topic in self.topics for number in range(topic.partitions)]

    @property
    def partition_counts(self) -> dict[str, int]:
        """By topic or table, how many partitions it has. A run numbers its partitions in this order."""
        return {
            **{topic.name: topic.partitions for topic in self.topics},
            **{table.name: 1 for table in self.tables},
        }

    @property
    def written(self) -> tuple[str, ...]:
        """The topics that a stage writes."""
        written = {topic for stage in self.stages for topic in stage.writes}
        return tuple(topic.name for topic in self.topics if topic.name in written)

    @property
    def transactional(self) -> bool:
        """Whether any stage writes in transactions."""
        return any(stage.transactional_ids or stage.txn_timeout_ms for stage in self.stages)

    @property
    def transactional_topics(self) -> frozenset[str]:
        """The topics that stages write in transactions alone. A table of a store is no topic."""
        inside = {topic for stage in self.stages if stage.txn_timeout_ms for topic in stage.writes}
        outside = {topic for stage in self.stages if not stage.txn_timeout_ms for topic in stage.writes}
        return frozenset({topic.name for topic in self.topics} & inside - outside)

    @property
    def journaled(self) -> bool:
        """Whether its workers are ours: they say what they do, and their topics may hold records of the run's own."""
        return all(stage.journaled for stage in self.stages)

    @property
    def free_stages(self) -> tuple[str, ...]:
        """The stages that read and send as they like: no input of theirs has to lead to anything."""
        return tuple(stage.name for stage in self.stages if not stage.transforms)

    @property
    def stores(self) -> tuple[str, ...]:
        """The kinds of stores that it needs beside Kafka."""
        return tuple(dict.fromkeys(table.store for table in self.tables))

    @property
    def stored_inputs(self) -> tuple[TableSpec, ...]:
        """The tables that a stage reads."""
        read = {topic for stage in self.stages for topic in stage.reads}
        return tuple(table for table in self.tables if table.name in read)

    @property
    def internal_topics(self) -> tuple[str, ...]:
        """The topics of Kafka's own in which it leaves traces."""
        groups = any(stage.group is not None for stage in self.stages)
        kept = ((CONSUMER_OFFSETS, groups), (TRANSACTION_STATE, self.transactional))
        return tuple(topic for topic, needed in kept if needed)

    def stage(self, name: str) -> StageSpec:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)

    def with_topics(self, config: Mapping[str, str]) -> "PipelineSpec":
        """The same with more settings of every topic."""
        topics = tuple(replace(one, config={**one.config, **config}) for one in self.topics)
        return replace(self, topics=topics)

    def with_workers(self, more: Mapping[str, Sequence[str]], *, shared: bool = False) -> "PipelineSpec":
        """The same with more workers, by stage, each with a transactional id of its own where the others have one.
        `shared`: all of a stage have the same.
        """
        return replace(
            self, stages=tuple(stage.with_workers(more.get(stage.name, ()), shared) for stage in self.stages)
        )

    def as_table(self) -> dict[str, Any]:
        """As it stands in `run.toml`, under `[workload]`."""
        return asdict(self) | {
            "topics": [topic.name for topic in self.topics],
            "topic": [asdict(topic) for topic in self.topics],
            "allowed": sorted(self.allowed),
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "PipelineSpec":
        """The inverse. Raises KeyError, TypeError, ValueError where the table is not as a run wrote it."""
        return cls(
            name=str(table["name"]),
            topics=tuple(
                read_table(TopicSpec, topic, identity=RecordIdentity(topic["identity"]))
                for topic in table["topic"]
            ),
            stages=tuple(StageSpec.from_table(stage) for stage in table["stages"]),
            guarantee=Guarantee(table["guarantee"]),
            goals=tuple(read_table(Goal, goal) for goal in table["goals"]),
            allowed=tuple(table["allowed"]),
            tables=tuple(read_table(TableSpec, one) for one in table["tables"]),
        )


class RunSizes(Protocol):
    """What of a run's options a pipeline depends on."""

    @property
    def workers(self) -> int:
        """Workers of each stage."""
        ...

    @property
    def partitions(self) -> int:
        """Partitions of each topic."""
        ...

    @property
    def brokers(self) -> int:
        """Brokers of the cluster."""
        ...

    @property
    def abort_share(self) -> float:
        """Share of the transactions that are aborted on purpose."""
        ...


class PipelineUnderTest(Protocol):
    """A pipeline under test."""

    @property
    def name(self) -> str:
        """What `--workload` calls it."""
        ...

    @property
    def summary(self) -> str:
        """One line: which topics lead to which."""
        ...

    def facts(self, options: RunSizes, tag: str = "") -> PipelineSpec:
        """What it is in a run of these options. `tag` sets its topics, groups and ids apart on a shared cluster."""
        ...

    def feeds(self) -> Sequence[Feed]:
        """Where its inputs come from."""
        ...

    def expectation(self) -> Expectation:
        """What its inputs must lead to."""
        ...
