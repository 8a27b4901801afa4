"""A workload: its stages, its feeds, and the expectation of each input.

The final reader applies the stages' transforms again to every input in the log. Each input must lead to exactly these
outputs, once. Checkers read the expected outputs as rows (input, output name, topic, digest). They know nothing else
about a workload.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from random import Random

from harness.model.expectation import Feed, FeedRecord, Headers, InputRecord
from harness.model.pipeline import PipelineSpec, RunSizes, StageSpec, TableSpec, durable_topic
from harness.model.promises import abort_goal, independent_stage_goals, output_goal, several_topics_goal
from harness.model.vocabulary import PAD_HEADER, Guarantee, OffsetTracking
from workloads.model.policy import CORRECT, Delivery, Policy, steps, zombie_steps
from workloads.model.stage import Aggregate, Output, Transform, TransformExpectation, WorkloadStage

__all__ = ["Aggregate", "Output", "Transform", "Workload", "WorkloadStage"]

NULL_VALUES, HEADERS = "null values", "headers from their transform"
"""Properties that outputs can have: see `Workload.shapes`."""
SIDE_EFFECT_DATABASE = "sqlite"
"""The database for the tables that the defect `side-effect` writes."""
OVERHEAD_BYTES = 65_536
"""An upper bound for the headers of a record and the overhead of its batch."""
DEFAULT_LIMIT_BYTES = 900_000
"""Records up to this size fit the default limits of brokers and clients."""


@dataclass(frozen=True)
class Workload:
    """A pipeline that is part of Fencepost. It implements `harness.model.pipeline.PipelineUnderTest`."""

    name: str
    summary: str
    feed: tuple[Feed, ...]
    stages: tuple[WorkloadStage, ...]
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    delivery: Delivery = Delivery.TRANSACTIONS
    allowed: frozenset[str] = frozenset()  # anomalies that the guarantee permits
    empty_share: float = 0.0  # share of batches that follow an empty transaction, unless the options set it
    shapes: frozenset[str] = (
        frozenset()
    )  # properties of some outputs that a defect can require: NULL_VALUES, HEADERS
    tables: Mapping[str, str] = field(
        default_factory=dict
    )  # tables that it reads or writes, with the kind of their database
    partition_factor: int = 1  # multiplies the number of partitions in the options
    must_occur: Mapping[str, str] = field(
        default_factory=dict
    )  # by topic: the reason to report if no record is written to it

    def __post_init__(self) -> None:
        """Raise ValueError if a stage promises something that no checker can check."""
        if self.delivery is Delivery.KEYED:
            raise ValueError(
                f"{self.name}: set the delivery {Delivery.KEYED} on one stage, not on the workload"
            )
        written = {topic for stage in self.stages for topic in stage.writes}
        for stage in self.stages:
            if stage.names_origins and not set(stage.reads) <= written:
                raise ValueError(
                    f"{stage.name} delivers by {Delivery.KEYED}: every topic that it reads must be written by a stage"
                )
            if stage.guarantee is None:
                continue
            if self.guarantee is not Guarantee.EXACTLY_ONCE or stage.guarantee is Guarantee.AT_MOST_ONCE:
                raise ValueError(
                    f"{stage.name} promises {stage.guarantee} in a workload that promises {self.guarantee}: a stage "
                    "can only promise at-least-once, in a workload that promises exactly-once"
                )
            readers = [reader for reader in self.stages if set(reader.reads) & set(stage.writes)]
            if stage.guarantee is Guarantee.AT_LEAST_ONCE and not all(
                reader.names_origins for reader in readers
            ):
                raise ValueError(
                    f"{stage.name} can repeat its outputs: each stage that reads them must deliver by {Delivery.KEYED}"
                )

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics: first those of the feeds, then those that the stages write."""
        fed = (feed.topic for feed in self.feed if feed.topic not in self.tables)
        written = (topic for stage in self.stages for topic in stage.writes if topic not in self.tables)
        return tuple(dict.fromkeys([*fed, *written]))

    @property
    def fed_table(self) -> bool:
        """Whether a feed writes to a table."""
        return any(feed.topic in self.tables for feed in self.feed)

    @property
    def read_tables(self) -> frozenset[str]:
        """The tables whose rows are inputs of a stage."""
        return frozenset(topic for stage in self.stages for topic in stage.reads if topic in self.tables)

    @property
    def output_names(self) -> frozenset[str]:
        """The output names that its stages declare."""
        return frozenset().union(*(stage.output_names for stage in self.stages))

    def stage(self, name: str) -> WorkloadStage:
        """Return the stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)

    @property
    def depth(self) -> int:
        """The number of stages that a record can pass. A stage that reads its own outputs counts twice."""
        return len(self.stages) + any(set(stage.reads) & set(stage.writes) for stage in self.stages)

    @property
    def fixed_topics(self) -> Mapping[str, str]:
        """The topics whose number of partitions must not change during a run, each with the reason, a sentence."""
        fixed: dict[str, str] = {}
        for stage in self.stages:
            reason = None
            if self.delivery_of(stage) is Delivery.MIXED:
                reason = f"the stage {stage.name} sends to partitions that it chose before, and to no new one"
            elif self.restores(stage):
                reason = (
                    f"the stage {stage.name} restores the sums of an input partition from the partition of its output "
                    "topic with the same number, and a key that changes its partition would lose its sum"
                )
            elif stage.aggregate is not None:
                reason = (
                    f"the stage {stage.name} stores the last value of each key, and a key that changes its partition "
                    "could get an older value last"
                )
            if reason is not None:
                fixed |= dict.fromkeys((*stage.reads, *stage.writes), reason)
        return {topic: reason for topic, reason in fixed.items() if topic not in self.tables}

    def delivery_of(self, stage: WorkloadStage) -> Delivery:
        """Return the delivery of a stage."""
        return stage.delivery or self.delivery

    def restores(self, stage: WorkloadStage) -> bool:
        """Whether the workers of a stage keep sums in memory and restore them from the topic that they write."""
        return stage.aggregate is not None and not self.delivery_of(stage).stored

    @property
    def deliveries(self) -> frozenset[Delivery]:
        """The deliveries of all stages."""
        return frozenset(map(self.delivery_of, self.stages))

    def partitions(self, options: RunSizes) -> int:
        """Return the number of partitions of each topic."""
        return self.partition_factor * options.partitions

    def index_of(self, stage: str) -> int:
        """Return the position of a stage, from 0."""
        return [candidate.name for candidate in self.stages].index(stage)

    def spec(
        self, options: RunSizes, tag: str = "", *, policy: Policy = CORRECT, txn_timeout_ms: int = 0
    ) -> PipelineSpec:
        """Return the pipeline spec for a run with these options."""
        tagged_workload = self.tagged(tag)
        topics = tuple(
            durable_topic(name, self.partitions(options), options.brokers) for name in tagged_workload.topics
        )
        transactions = {stage.name: self.delivery_of(stage).transactional for stage in tagged_workload.stages}
        workers = {
            stage.name: tuple(f"{stage.name}-{n}" for n in range(1, options.workers + 1))
            for stage in tagged_workload.stages
        }
        stages = tuple(
            StageSpec(
                name=stage.name,
                reads=stage.reads,
                writes=stage.writes,
                group=group_of(stage.name, tag) if self.delivery_of(stage).grouped else None,
                positions=OffsetTracking.EACH.value if self.delivery_of(stage) is Delivery.RELAYED else None,
                guarantee=stage.guarantee.value if stage.guarantee else None,
                promised=stage.promised.value,
                ordered=stage.ordered,
                workers=workers[stage.name],
                transactional_ids=self._transactional_ids(stage, workers[stage.name], options, tag, policy),
                txn_timeout_ms=txn_timeout_ms if transactions[stage.name] else 0,
                steps=tuple(step.value for step in steps(self.delivery_of(stage), policy)),
                zombie_steps=tuple(step.value for step in zombie_steps(self.delivery_of(stage), policy)),
                transforms=self.delivery_of(stage).transforms,
            )
            for stage in tagged_workload.stages
        )
        goals = (
            *((abort_goal(options.abort_share),) if any(transactions.values()) else ()),
            *(() if all(stage.transforms for stage in stages) else independent_stage_goals()),
            *(output_goal(topic, text) for topic, text in tagged_workload.must_occur.items()),
            *(
                (several_topics_goal(),)
                if any(len(stage.reads) > 1 and stage.transforms for stage in stages)
                else ()
            ),
        )
        allowed = tuple(sorted(self.allowed))
        tables = tuple(TableSpec(name, kind) for name, kind in tagged_workload.tables_of(policy).items())
        return PipelineSpec(self.name, topics, stages, self.guarantee, goals, allowed, tables)

    def tables_of(self, policy: Policy) -> Mapping[str, str]:
        """Return the tables and the kind of their database, with the table that a defect adds."""
        return {**self.tables, **({policy.side_effect: SIDE_EFFECT_DATABASE} if policy.side_effect else {})}

    def _transactional_ids(
        self, stage: WorkloadStage, workers: Sequence[str], options: RunSizes, tag: str, policy: Policy
    ) -> Mapping[str, str]:
        """Return the transactional ids by worker, or by input partition if each partition has a producer."""
        match self.delivery_of(stage):
            case Delivery.TRANSACTIONS | Delivery.MIXED | Delivery.RELAYED:
                return {
                    worker: transactional_id(stage.name if policy.shared_id else worker, tag)
                    for worker in workers
                }
            case Delivery.PINNED | Delivery.PROGRAMS | Delivery.PROGRAMS_OF_MEMBERS:
                topic_partitions = [
                    pinned_id(topic, n) for topic in stage.reads for n in range(self.partitions(options))
                ]
                return {topic_partition: topic_partition for topic_partition in topic_partitions}
            case _:
                return {}

    def tagged(self, tag: str) -> "Workload":
        """Return the workload with the tag before all topics and tables, to make them unique on a shared cluster."""
        if not tag:
            return self

        def add_tag(topic: str) -> str:
            return f"{tag}-{topic}"

        def without_tag(record: InputRecord) -> InputRecord:
            return record._replace(topic=record.topic.removeprefix(f"{tag}-"))

        def transform(stage: WorkloadStage, record: InputRecord) -> list[Output]:
            return [out._replace(topic=add_tag(out.topic)) for out in stage.transform(without_tag(record))]

        def tagged_aggregate(aggregate: Aggregate) -> Aggregate:
            return replace(
                aggregate,
                topic=add_tag(aggregate.topic),
                adds=lambda record: aggregate.adds(without_tag(record)),
                state=lambda record: aggregate.state(without_tag(record)),
            )

        return replace(
            self,
            feed=tuple(replace(feed, topic=add_tag(feed.topic)) for feed in self.feed),
            tables={add_tag(table): kind for table, kind in self.tables.items()},
            must_occur={add_tag(topic): text for topic, text in self.must_occur.items()},
            stages=tuple(
                replace(
                    stage,
                    reads=tuple(map(add_tag, stage.reads)),
                    writes=tuple(map(add_tag, stage.writes)),
                    transform=partial(transform, stage),
                    aggregate=tagged_aggregate(stage.aggregate) if stage.aggregate else None,
                    notes=add_tag(stage.notes) if stage.notes else None,
                )
                for stage in self.stages
            ),
        )

    def padded(self, record_bytes: int) -> "Workload":
        """Return the workload with records padded to at least `record_bytes` (key, value and padding).

        Records of feeds and all outputs are padded, except sums and rows of tables. With 0 the workload is unchanged.
        The padding is in a separate header. No transform sees it, and every digest covers it.
        """
        if not record_bytes:
            return self

        def make_padded(feed: Feed, rng: Random, n: int) -> FeedRecord:
            feed_record = feed.make(rng, n)
            return feed_record._replace(headers=(*feed_record.headers, *_padding(feed_record, record_bytes)))

        def transform(stage: WorkloadStage, record: InputRecord) -> Sequence[Output]:
            return [
                out
                if out.topic in self.tables
                else out._replace(headers=(*out.headers, *_padding(out, record_bytes)))
                for out in stage.transform(record)
            ]

        return replace(
            self,
            feed=tuple(replace(feed, make=partial(make_padded, feed)) for feed in self.feed),
            stages=tuple(replace(stage, transform=partial(transform, stage)) for stage in self.stages),
        )

    def feeds(self, partitions: int = 0) -> Sequence[Feed]:
        """Return the feeds that write its inputs to this number of partitions."""
        return [
            feed if feed.per_partition is None else replace(feed, count=feed.per_partition * partitions)
            for feed in self.feed
        ]

    def expectation(self) -> "TransformExpectation":
        """Return the expectation of its inputs."""
        return TransformExpectation(self.stages)


def group_of(stage: str, tag: str = "") -> str:
    """Return the consumer group of a stage. `tag` makes it unique on a shared cluster."""
    return f"{tag or 'fencepost'}-{stage}"


def pinned_id(topic: str, number: int) -> str:
    """Return the transactional id of the producer for one input partition."""
    return f"{topic}-{number}"


def transactional_id(worker: str, tag: str = "") -> str:
    """Return the transactional id of a worker. It stays the same after a restart."""
    return f"{tag}-{worker}" if tag else worker


def largest_bytes(record_bytes: int) -> int | None:
    """Return the largest record or batch that brokers and clients must accept. None: their default limits suffice."""
    return record_bytes + OVERHEAD_BYTES if record_bytes > DEFAULT_LIMIT_BYTES else None


def _padding(record: FeedRecord | Output, record_bytes: int) -> Headers:
    lacking = record_bytes - len(record.key or b"") - len(record.value or b"")
    return ((PAD_HEADER, _pad(record_bytes)[:lacking]),) if lacking > 0 else ()


@cache
def _pad(count: int) -> bytes:
    """Return `count` bytes that are the same in every process and that hardly compress."""
    return Random(0).randbytes(count)
