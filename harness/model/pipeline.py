"""The description of a pipeline, for the runner, the faults and the checkers.

`PipelineUnderTest` is the interface of every workload and of custom pipelines. Its method `spec` returns a
`PipelineSpec`, which is data. The run stores it in `run.toml` as `[workload]`, and the checkers read it from there.
So no checker has a special case for a certain pipeline.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from harness.common.documents import decode_table
from harness.common.wording import redacted_settings
from harness.model.expectation import Expectation, Feed
from harness.model.promises import Goal
from harness.model.vocabulary import Guarantee, Isolation, OffsetTracking

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

TopicPartition = tuple[str, int]
WORKING_TIMEOUT_S = 20.0
"""How long a fault on an instance waits until its stage writes, if `StageSpec.works_within_s` is not set."""
SERVICE, JOB = "service", "job"
"""The kinds of stages of a custom pipeline."""


NEW_KEYS = frozenset({"progress", "metadata_max_age_s"})
"""Keys of stages that runs of earlier versions do not have."""


class RecordIdentity(StrEnum):
    """How a record of a topic is joined to the attempt that wrote it and to its inputs."""

    JOURNAL = "journal"  # its headers name the attempt and the inputs, and a journal has the attempt
    CORRELATION = "correlation"  # by the correlation key, a field or header that the user names
    CONTENT = "content"  # by content: the expected outputs and the records are compared as multisets
    FINAL = (
        "final"  # only the last record of each key is compared, with what all inputs together must lead to
    )
    NONE = "none"  # the records are not checked


JOINED = frozenset({RecordIdentity.CORRELATION, RecordIdentity.CONTENT})
"""Records of such a topic do not name their inputs. They are joined to them by their content."""


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
    "retention.ms": "-1",  # Kafka would delete records with old time stamps
    "message.timestamp.type": "CreateTime",  # a digest covers the time stamp that a producer sets
}
MOST_REPLICAS = 3
MOST_PARTITIONS = 200_000
"""Partitions of a run. Kafka's documentation names 200,000 as the most of a cluster with ZooKeeper."""
MOST_REPLICATION = 2**15 - 1
"""Kafka stores the replication factor of a topic in 16 bits."""


def durable_topic(
    name: str,
    partitions: int,
    brokers: int,
    config: Mapping[str, str] | None = None,
    identity: RecordIdentity = RecordIdentity.JOURNAL,
) -> TopicSpec:
    """Return a topic that is as durable as possible: on three brokers or more, 3 replicas, 2 of them in sync."""
    replicas = min(MOST_REPLICAS, brokers)
    settings = {**TOPIC_CONFIG, "min.insync.replicas": str(min_in_sync(replicas)), **(config or {})}
    return TopicSpec(name, partitions, replicas, settings, identity)


def min_in_sync(replicas: int) -> int:
    """Return `min.insync.replicas` of a topic that stays writable when one of its replicas is lost."""
    return max(1, replicas - 1)


@dataclass(frozen=True)
class TableSpec:
    """A table of a database. A final reader reads it like a topic with one partition. A stage may read it, too."""

    name: str
    store: str  # the kind of database, see `harness.databases`


@dataclass(frozen=True)
class StageSpec:
    """One stage of a pipeline: its topics and tables, its group, and its promises."""

    name: str
    reads: tuple[str, ...]  # topics and tables
    group: str | None = (
        None  # the consumer group that commits its offsets; None: it keeps its offsets elsewhere
    )
    promised: str = Isolation.READ_COMMITTED.value  # the isolation level that its consumers promise
    # It promises this order: outputs of one key and output name follow the order of their inputs in a partition.
    ordered: bool = False
    writes: tuple[str, ...] = ()
    journaled: bool = True  # its workers keep journals, which have the input ranges that they commit
    workers: tuple[str, ...] = ()
    # By worker, or by partition (`topic-0`). Empty if it has none, or if a custom pipeline does not name them.
    transactional_ids: Mapping[str, str] = field(default_factory=dict)
    txn_timeout_ms: int = 0  # 0: it has no transactions
    steps: tuple[str, ...] = ()  # the steps of its loop at which faults can be aimed
    zombie_steps: tuple[str, ...] = ()  # the steps at which pausing a worker leaves a zombie
    positions: str | None = None  # `OffsetTracking`; None: GROUP if it has a group, else ELSEWHERE
    guarantee: str | None = None  # for each of its inputs; None: the guarantee of the pipeline
    idle_s: float = (
        15.0  # without group and journals: at the end it has finished after writing nothing for so long
    )
    # Its [stage.progress] prints which of its inputs are processed.
    progress: bool = False
    # How long a fault on an instance waits until the stage writes again. The schedule reserves this time for each such
    # fault. None: `WORKING_TIMEOUT_S`, and the schedule reserves nothing.
    works_within_s: float | None = None
    # How long its clients may take to notice a new partition of a topic.
    metadata_max_age_s: float = 5.0
    transforms: bool = True  # its outputs come from its inputs; False: it sends and polls independently
    kind: str | None = None  # JOB; None: its instances run until they are stopped
    every_s: float | None = (
        None  # of a job: the time from one start of an instance to the next; None: one start
    )

    @property
    def is_job(self) -> bool:
        """Return whether its instances end by themselves, with status 0, when they find no more inputs."""
        return self.kind == JOB

    @property
    def working_timeout_s(self) -> float:
        """How long a fault on an instance waits until the stage writes. An instance of a job may start so late."""
        return max(self.works_within_s or WORKING_TIMEOUT_S, self.every_s or 0.0)

    @property
    def reserved_s(self) -> float:
        """The time of the time limit that a schedule reserves for this wait: nothing for one of `WORKING_TIMEOUT_S`."""
        timeout_s = self.working_timeout_s
        return timeout_s if self.works_within_s or timeout_s > WORKING_TIMEOUT_S else 0.0

    @property
    def offset_tracking(self) -> OffsetTracking:
        """How the stage records which of its inputs it has processed."""
        if self.positions is None:
            return OffsetTracking.ELSEWHERE if self.group is None else OffsetTracking.GROUP
        return OffsetTracking(self.positions)

    def transactional_id_of(self, worker: str, topic_partitions: Iterable[TopicPartition]) -> str | None:
        """Return the transactional id of a worker that processes these input partitions. None: it has none.

        A partition that was added during the run has an id like those before it.
        """
        topic_partitions = list(topic_partitions)
        owners = (worker, *(f"{topic}-{number}" for topic, number in topic_partitions))
        added = (
            f"{topic}-{number}"
            for topic, number in topic_partitions
            if f"{topic}-0" in self.transactional_ids
        )
        return next(
            (self.transactional_ids[owner] for owner in owners if owner in self.transactional_ids),
            next(added, None),
        )

    @property
    def has_unknown_ids(self) -> bool:
        """Return whether the stage has transactions whose transactional ids are not known before its first request."""
        return not self.journaled and self.txn_timeout_ms > 0 and not self.transactional_ids

    def with_workers(self, more: Sequence[str], shared: bool) -> "StageSpec":
        """Return the stage with more workers. If `shared`, all its workers have the same transactional id."""
        ids = self.transactional_ids
        new_ids: dict[str, str] = {}
        if set(ids) == set(self.workers):  # by worker, and not by partition
            worker, transactional_id = next(iter(ids.items()), ("", ""))
            prefix = transactional_id.removesuffix(worker)  # on a shared cluster
            new_ids = {name: transactional_id if shared else f"{prefix}{name}" for name in more}
        return replace(
            self,
            workers=(*self.workers, *more),
            transactional_ids={**ids, **new_ids},
        )


@dataclass(frozen=True)
class PipelineSpec:
    """The description of a pipeline in one run."""

    name: str
    topics: tuple[TopicSpec, ...]
    stages: tuple[StageSpec, ...]
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    goals: tuple[Goal, ...] = ()
    allowed: tuple[str, ...] = ()  # anomalies that the workload permits
    tables: tuple[TableSpec, ...] = ()

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """All partitions of its topics."""
        return [(topic.name, number) for topic in self.topics for number in range(topic.partitions)]

    @property
    def partition_counts(self) -> dict[str, int]:
        """The number of partitions by topic or table. A run numbers its partitions in this order."""
        return {
            **{topic.name: topic.partitions for topic in self.topics},
            **{table.name: 1 for table in self.tables},
        }

    @property
    def output_topics(self) -> tuple[str, ...]:
        """The topics that stages write."""
        outputs = {topic for stage in self.stages for topic in stage.writes}
        return tuple(topic.name for topic in self.topics if topic.name in outputs)

    @property
    def transactional(self) -> bool:
        """Return whether any stage writes in transactions."""
        return any(stage.transactional_ids or stage.txn_timeout_ms for stage in self.stages)

    @property
    def transactional_topics(self) -> frozenset[str]:
        """The topics that stages write only in transactions. A table of a database is not a topic."""
        inside = {topic for stage in self.stages if stage.txn_timeout_ms for topic in stage.writes}
        outside = {topic for stage in self.stages if not stage.txn_timeout_ms for topic in stage.writes}
        return frozenset({topic.name for topic in self.topics} & inside - outside)

    @property
    def journaled(self) -> bool:
        """Return whether all stages keep journals. Then the topics may hold records of Fencepost, such as sentinels."""
        return all(stage.journaled for stage in self.stages)

    @property
    def free_stages(self) -> tuple[str, ...]:
        """The stages that send and poll independently: their inputs have no expected outputs."""
        return tuple(stage.name for stage in self.stages if not stage.transforms)

    @property
    def database_kinds(self) -> tuple[str, ...]:
        """The kinds of databases that the pipeline needs beside Kafka."""
        return tuple(dict.fromkeys(table.store for table in self.tables))

    @property
    def input_tables(self) -> tuple[TableSpec, ...]:
        """The tables that stages read."""
        inputs = {topic for stage in self.stages for topic in stage.reads}
        return tuple(table for table in self.tables if table.name in inputs)

    @property
    def internal_topics(self) -> tuple[str, ...]:
        """The internal topics of Kafka that have records about this pipeline."""
        has_group = any(stage.group is not None for stage in self.stages)
        topics = ((CONSUMER_OFFSETS, has_group), (TRANSACTION_STATE, self.transactional))
        return tuple(topic for topic, is_used in topics if is_used)

    def stage(self, name: str) -> StageSpec:
        """Return the stage with this name."""
        return next(stage for stage in self.stages if stage.name == name)

    def with_topics(self, config: Mapping[str, str]) -> "PipelineSpec":
        """Return the pipeline with more settings for every topic."""
        topics = tuple(replace(topic, config={**topic.config, **config}) for topic in self.topics)
        return replace(self, topics=topics)

    def with_replicas(self, replicas: int) -> "PipelineSpec":
        """Return the pipeline with this many replicas of every topic."""
        topics = tuple(replace(topic, replication=replicas) for topic in self.topics)
        return replace(self, topics=topics).with_topics({"min.insync.replicas": str(min_in_sync(replicas))})

    def with_workers(self, more: Mapping[str, Sequence[str]], *, shared: bool = False) -> "PipelineSpec":
        """Return the pipeline with more workers.

        Args:
            more: The names of the new workers, by stage.
            shared: All workers of a stage have the same transactional id. Otherwise each new worker gets its own.
        """
        return replace(
            self, stages=tuple(stage.with_workers(more.get(stage.name, ()), shared) for stage in self.stages)
        )

    def as_table(self) -> dict[str, Any]:
        """Return the table `[workload]` of `run.toml`, without secrets in the settings of topics."""
        return asdict(self) | {
            "topics": [topic.name for topic in self.topics],
            "topic": [asdict(topic) | {"config": redacted_settings(topic.config)} for topic in self.topics],
            "allowed": sorted(self.allowed),
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "PipelineSpec":
        """Read what `as_table` returned. Raises ValueError."""
        body = {key: value for key, value in table.items() if key != "topic"} | {"topics": table.get("topic")}
        spec = decode_table(body, cls, new=NEW_KEYS)
        _require_possible(spec.topics)
        return spec


def _require_possible(topics: Iterable[TopicSpec]) -> None:
    """Raise ValueError for numbers of partitions and replicas that no cluster has. Partitions are listed in memory."""
    partitions = 0
    for topic in topics:
        if topic.partitions < 1 or not 1 <= topic.replication <= MOST_REPLICATION:
            raise ValueError(
                f"the topic {topic.name!r} has {topic.partitions:,} partitions and {topic.replication:,} replicas"
            )
        partitions += topic.partitions
    if partitions > MOST_PARTITIONS:
        raise ValueError(
            f"its topics have {partitions:,} partitions, and a run has at most {MOST_PARTITIONS:,}"
        )


class RunSizes(Protocol):
    """The options of a run that a pipeline depends on."""

    @property
    def workers(self) -> int:
        """Number of workers of each stage."""
        ...

    @property
    def partitions(self) -> int:
        """Number of partitions of each topic."""
        ...

    @property
    def brokers(self) -> int:
        """Number of brokers of the cluster."""
        ...

    @property
    def abort_share(self) -> float:
        """Share of the transactions, 0 to 1, that are aborted on purpose."""
        ...


class PipelineUnderTest(Protocol):
    """A pipeline under test."""

    @property
    def name(self) -> str:
        """The name for `--workload`."""
        ...

    @property
    def summary(self) -> str:
        """One line: the topics that each stage reads and writes."""
        ...

    def spec(self, options: RunSizes, tag: str = "") -> PipelineSpec:
        """Return the description of the pipeline in a run with these options.

        `tag` makes the names of its topics, groups and transactional ids unique on a shared cluster.
        """
        ...

    def feeds(self) -> Sequence[Feed]:
        """Return the sources of its inputs."""
        ...

    def expectation(self) -> Expectation:
        """Return the expected outputs of its inputs."""
        ...
