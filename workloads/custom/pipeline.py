"""The pipeline spec, feeds and expectation of a custom pipeline."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from harness.model.expectation import Expectation, Feed
from harness.model.pipeline import (
    JOB,
    PipelineSpec,
    RecordIdentity,
    RunSizes,
    StageSpec,
    TopicSpec,
    durable_topic,
)
from harness.model.promises import optional_abort_goal, transactions_goal
from harness.model.vocabulary import Guarantee
from workloads.custom.command import worker_name
from workloads.custom.description import CONTENT, CustomStage, CustomTopic, PipelineDescription
from workloads.custom.expectation import CustomExpectation, NothingExpected
from workloads.custom.feeds import feed_of
from workloads.custom.names import fill_placeholders, name_in_file, tagged
from workloads.custom.read import read


@dataclass(frozen=True)
class CustomPipeline:
    """A `PipelineUnderTest` that a file describes."""

    description: PipelineDescription

    @classmethod
    def load(cls, file: str | Path) -> "CustomPipeline":
        """Read the file. Raises `UsageError`."""
        return cls(read(Path(file)))

    def tagged(self, tag: str) -> "CustomPipeline":
        """Return the pipeline with the tag before all topics, groups and transactional ids."""
        return CustomPipeline(tagged(self.description, tag))

    def with_instances(self, more: Mapping[str, int]) -> "CustomPipeline":
        """Return the pipeline with `more[stage]` additional instances of each stage."""
        stages = tuple(
            replace(stage, instances=stage.instances + more.get(stage.name, 0))
            for stage in self.description.stages
        )
        return CustomPipeline(replace(self.description, stages=stages))

    @property
    def name(self) -> str:
        """The name in the file."""
        return self.description.name

    @property
    def summary(self) -> str:
        """For each stage: the topics that it reads and those that it writes."""
        return "; ".join(
            f"{' + '.join(stage.reads)} -> {' + '.join(stage.writes)}" for stage in self.description.stages
        )

    @cached_property
    def written(self) -> frozenset[str]:
        """The topics that its programs write."""
        return frozenset(topic for stage in self.description.stages for topic in stage.writes)

    @cached_property
    def read(self) -> frozenset[str]:
        """The topics that its programs read."""
        return frozenset(topic for stage in self.description.stages for topic in stage.reads)

    def spec(self, options: RunSizes, tag: str = "") -> PipelineSpec:
        """Return the pipeline spec for a run with these options."""
        if tag:
            return self.tagged(tag).spec(options)
        description = self.description
        names = dict.fromkeys(
            [
                *description.inputs,
                *(topic for stage in description.stages for topic in (*stage.reads, *stage.writes)),
            ]
        )
        transactional = any(self._transactional(stage) for stage in description.stages)
        permitted = description.guarantee.permits
        allowed: tuple[str, ...] = (
            (permitted, "offset-output-mismatch", "group-offset-regression") if permitted else ()
        )
        if permitted and description.expect and description.expect.fold:
            allowed += ("corrupt",)  # an input that took effect twice changes every later total
        return PipelineSpec(
            description.name,
            tuple(self._topic(name, options) for name in names),
            tuple(map(self._stage, description.stages)),
            description.guarantee,
            (transactions_goal(), optional_abort_goal()) if transactional else (),
            allowed,
        )

    def _transactional(self, stage: CustomStage) -> bool:
        return self.description.guarantee is Guarantee.EXACTLY_ONCE and stage.transactions

    def _topic(self, name: str, options: RunSizes) -> TopicSpec:
        settings = self.description.topics.get(name, CustomTopic())
        identity = RecordIdentity.JOURNAL
        if name in self.written:
            expect = self.description.expect
            joined_by = (
                RecordIdentity.CONTENT
                if expect and expect.correlate == CONTENT
                else RecordIdentity.CORRELATION
            )
            identity = joined_by if expect else RecordIdentity.NONE
            if expect and name_in_file(self.description, name) in expect.final:
                identity = RecordIdentity.FINAL
        return durable_topic(
            name, settings.partitions or options.partitions, options.brokers, settings.config, identity
        )

    def _stage(self, stage: CustomStage) -> StageSpec:
        workers = tuple(worker_name(stage.name, n) for n in range(1, stage.instances + 1))
        ids = {}
        if stage.transactional_id is not None:
            ids = {
                worker: fill_placeholders(stage.transactional_id, {"instance": str(n)})
                for n, worker in enumerate(workers, 1)
            }
        return StageSpec(
            name=stage.name,
            reads=stage.reads,
            group=stage.group,
            ordered=stage.ordered,
            idle_s=stage.idle_s,
            works_within_s=stage.works_within_s,
            metadata_max_age_s=stage.metadata_max_age_s,
            progress=stage.progress is not None,
            writes=stage.writes,
            journaled=False,
            workers=workers,
            transactional_ids=ids,
            txn_timeout_ms=round(1000 * stage.transaction_timeout_s) if self._transactional(stage) else 0,
            kind=JOB if stage.kind == JOB else None,
            every_s=stage.every_s,
        )

    def digest(self) -> str:
        """Return a hash of pipeline.toml and its Python files.

        The check after the run reads these files again, so they must not change during the run.
        """
        files = sorted({self.description.file, *(function.file for function in self.description.functions)})
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

    def feeds(self, partition_counts: Mapping[str, int] | None = None) -> Sequence[Feed]:
        """Return the feeds that write its inputs.

        Args:
            partition_counts: the number of partitions of each topic; None: they are not known.
        """
        topics, counts = self.description.topics, partition_counts or {}
        return [
            feed_of(topic, inputs, topics.get(topic), counts.get(topic))
            for topic, inputs in self.description.inputs.items()
        ]

    def expectation(self) -> Expectation:
        """Return the expectation of its inputs."""
        expect = self.description.expect
        return NothingExpected() if expect is None else CustomExpectation(self.description, expect)
