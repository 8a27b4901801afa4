"""What a workload of ours is: its stages, its feeds, and the statement of what each input must lead to.

The expectation is the transform itself, run once more by the final reader on every input that stands in the log:
each input must lead to exactly those outputs, once. It is stated for the checkers as rows (input, output name, topic,
digest), so they know nothing of what a workload is about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from harness.model.expectation import Feed, InputRecord
from harness.model.goals import abort_goal, mixed_goals, output_goal, several_topics_goal
from harness.model.pipeline import PipelineSpec, RunSizes, StageSpec, TableSpec, durable_topic
from harness.model.vocabulary import Guarantee, OffsetTracking
from workloads.model.policy import RIGHT, Delivery, Policy, steps, zombie_steps
from workloads.model.stage import Aggregate, Output, Transform, WorkloadStage
from workloads.model.stated import TransformExpectation

__all__ = ["Aggregate", "Output", "Transform", "Workload", "WorkloadStage"]

NULL_VALUES, HEADERS = "null values", "headers of their own"
"""What outputs may have: see `Workload.shapes`."""
SIDE_STORE = "sqlite"
"""The store of the tables that a defect writes on the side."""


@dataclass(frozen=True)
class Workload:
    """A pipeline of ours: see `harness.model.pipeline.Pipeline`."""

    name: str
    summary: str
    feed: tuple[Feed, ...]
    stages: tuple[WorkloadStage, ...]
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    delivery: Delivery = Delivery.TRANSACTIONS
    allowed: frozenset[str] = frozenset()  # anomalies that the guarantee permits
    empty_share: float = (
        0.0  # of the batches that an empty transaction goes before, unless the run says otherwise
    )
    shapes: frozenset[str] = (
        frozenset()
    )  # what some outputs have, where a defect asks for it: NULL_VALUES, HEADERS
    tables: Mapping[str, str] = field(
        default_factory=dict
    )  # those of a store that it writes, and in which kind
    spread: int = 1  # partitions of each topic, for each that the options ask for
    must_occur: Mapping[str, str] = field(
        default_factory=dict
    )  # by topic: what is said if nothing is written there

    def __post_init__(self) -> None:
        """Raises ValueError where a stage promises what no check could hold it to."""
        if self.delivery is Delivery.KEYED:
            raise ValueError(
                f"{self.name}: say {Delivery.KEYED} of the stage that delivers so, not of them all"
            )
        written = {topic for stage in self.stages for topic in stage.writes}
        for stage in self.stages:
            if stage.names_origins and not set(stage.reads) <= written:
                raise ValueError(
                    f"{stage.name} is once by the inputs of its inputs: stages must write all it reads"
                )
            if stage.guarantee is None:
                continue
            if self.guarantee is not Guarantee.EXACTLY_ONCE or stage.guarantee is Guarantee.AT_MOST_ONCE:
                raise ValueError(
                    f"{stage.name} promises {stage.guarantee} in a workload that promises {self.guarantee}: a stage "
                    "may promise at-least-once in one that promises exactly-once, and nothing else"
                )
            readers = [one for one in self.stages if set(one.reads) & set(stage.writes)]
            if stage.guarantee is Guarantee.AT_LEAST_ONCE and not all(one.names_origins for one in readers):
                raise ValueError(
                    f"{stage.name} may repeat what it writes: each stage that reads it must deliver by {Delivery.KEYED}"
                )

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics: those that are fed, then those that the stages write."""
        fed = (feed.topic for feed in self.feed if feed.topic not in self.tables)
        written = (topic for stage in self.stages for topic in stage.writes if topic not in self.tables)
        return tuple(dict.fromkeys([*fed, *written]))

    @property
    def fed_table(self) -> bool:
        """Whether its inputs come from a table."""
        return any(feed.topic in self.tables for feed in self.feed)

    @property
    def read_tables(self) -> frozenset[str]:
        """The tables whose rows are inputs of a stage."""
        return frozenset(topic for stage in self.stages for topic in stage.reads if topic in self.tables)

    @property
    def output_names(self) -> frozenset[str]:
        """The outputs that its stages name."""
        return frozenset().union(*(stage.output_names for stage in self.stages))

    def stage(self, name: str) -> WorkloadStage:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)

    @property
    def depth(self) -> int:
        """How many stages a record may pass; one that reads what it writes counts twice."""
        return len(self.stages) + any(set(stage.reads) & set(stage.writes) for stage in self.stages)

    def delivery_of(self, stage: WorkloadStage) -> Delivery:
        """How a stage delivers."""
        return stage.delivery or self.delivery

    def restores(self, stage: WorkloadStage) -> bool:
        """Whether its workers hold sums in memory, and restore them from the topic that they write."""
        return stage.aggregate is not None and not self.delivery_of(stage).stored

    @property
    def deliveries(self) -> frozenset[Delivery]:
        """All ways in which its stages deliver."""
        return frozenset(map(self.delivery_of, self.stages))

    def partitions(self, options: RunSizes) -> int:
        """Of each topic."""
        return self.spread * options.partitions

    def place_of(self, stage: str) -> int:
        """Which stage it is, from 0."""
        return [one.name for one in self.stages].index(stage)

    def facts(
        self, options: RunSizes, tag: str = "", *, policy: Policy = RIGHT, txn_timeout_ms: int = 0
    ) -> PipelineSpec:
        """What it is in a run of these options."""
        mine = self.tagged(tag)
        topics = tuple(durable_topic(name, self.partitions(options), options.brokers) for name in mine.topics)
        transactions = {stage.name: self.delivery_of(stage).transactional for stage in mine.stages}
        workers = {
            stage.name: tuple(f"{stage.name}-{n}" for n in range(1, options.workers + 1))
            for stage in mine.stages
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
            for stage in mine.stages
        )
        goals = (
            *((abort_goal(options.abort_share),) if any(transactions.values()) else ()),
            *(() if all(stage.transforms for stage in stages) else mixed_goals()),
            *(output_goal(topic, text) for topic, text in mine.must_occur.items()),
            *(
                (several_topics_goal(),)
                if any(len(one.reads) > 1 and one.transforms for one in stages)
                else ()
            ),
        )
        allowed = tuple(sorted(self.allowed))
        tables = tuple(TableSpec(name, kind) for name, kind in mine.tables_of(policy).items())
        return PipelineSpec(self.name, topics, stages, self.guarantee, goals, allowed, tables)

    def tables_of(self, policy: Policy) -> Mapping[str, str]:
        """The tables that it writes, also those that a defect adds, and the kind of their store."""
        return {**self.tables, **({policy.side_effect: SIDE_STORE} if policy.side_effect else {})}

    def _transactional_ids(
        self, stage: WorkloadStage, workers: Sequence[str], options: RunSizes, tag: str, policy: Policy
    ) -> Mapping[str, str]:
        """By worker, or by input partition where each has a producer of its own."""
        match self.delivery_of(stage):
            case Delivery.TRANSACTIONS | Delivery.MIXED | Delivery.RELAYED:
                named = partial(transactional_id, tag=tag)
                return {worker: named(stage.name if policy.shared_id else worker) for worker in workers}
            case Delivery.PINNED:
                places = [
                    pinned_id(topic, n) for topic in stage.reads for n in range(self.partitions(options))
                ]
                return {place: place for place in places}
            case _:
                return {}

    def tagged(self, tag: str) -> "Workload":
        """The same workload on topics of its own."""
        if not tag:
            return self

        def elsewhere(topic: str) -> str:
            return f"{tag}-{topic}"

        def back(record: InputRecord) -> InputRecord:
            return record._replace(topic=record.topic.removeprefix(f"{tag}-"))

        def transform(stage: WorkloadStage, record: InputRecord) -> list[Output]:
            return [out._replace(topic=elsewhere(out.topic)) for out in stage.transform(back(record))]

        def moved(aggregate: Aggregate) -> Aggregate:
            return replace(
                aggregate,
                topic=elsewhere(aggregate.topic),
                adds=lambda record: aggregate.adds(back(record)),
                state=lambda record: aggregate.state(back(record)),
            )

        return replace(
            self,
            feed=tuple(replace(feed, topic=elsewhere(feed.topic)) for feed in self.feed),
            tables={elsewhere(table): kind for table, kind in self.tables.items()},
            must_occur={elsewhere(topic): text for topic, text in self.must_occur.items()},
            stages=tuple(
                replace(
                    stage,
                    reads=tuple(map(elsewhere, stage.reads)),
                    writes=tuple(map(elsewhere, stage.writes)),
                    transform=partial(transform, stage),
                    aggregate=moved(stage.aggregate) if stage.aggregate else None,
                    notes=elsewhere(stage.notes) if stage.notes else None,
                )
                for stage in self.stages
            ),
        )

    def feeds(self) -> Sequence[Feed]:
        """Where its inputs come from."""
        return self.feed

    def expectation(self) -> "TransformExpectation":
        """What its inputs must lead to."""
        return TransformExpectation(self.stages)


def group_of(stage: str, tag: str = "") -> str:
    """The consumer group of a stage. `tag`: what all names begin with where others have names as well."""
    return f"{tag or 'fencepost'}-{stage}"


def pinned_id(topic: str, number: int) -> str:
    """The transactional id of whoever has an input partition."""
    return f"{topic}-{number}"


def transactional_id(worker: str, tag: str = "") -> str:
    """The transactional id of a worker: it outlives a restart."""
    return f"{tag}-{worker}" if tag else worker
