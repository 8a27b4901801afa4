"""The pipeline spec, feeds and expectation of a custom pipeline."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.model.expectation import Expectation, Feed
from harness.model.goals import optional_abort_goal, transactions_goal
from harness.model.pipeline import PipelineSpec, RecordIdentity, RunSizes, StageSpec, TopicSpec, durable_topic
from harness.model.vocabulary import Guarantee
from workloads.custom.command import worker_name
from workloads.custom.description import CONTENT, CustomStage, CustomTopic, PipelineDescription
from workloads.custom.expectation import CustomExpectation, NothingExpected
from workloads.custom.feeds import feed_of
from workloads.custom.placeholders import fill_placeholders
from workloads.custom.read import read
from workloads.custom.tagged import name_in_file, tagged


@dataclass(frozen=True)
class CustomPipeline:
    """A `PipelineUnderTest` that a file describes."""

    described: PipelineDescription

    @classmethod
    def load(cls, file: str | Path) -> "CustomPipeline":
        """Read the file. Raises `UsageError`."""
        return cls(read(Path(file)))

    def tagged(self, tag: str) -> "CustomPipeline":
        """Return the pipeline with the tag before all topics, groups and transactional ids."""
        return CustomPipeline(tagged(self.described, tag))

    @property
    def name(self) -> str:
        """The name in the file."""
        return self.described.name

    @property
    def summary(self) -> str:
        """Which topics lead to which."""
        return "; ".join(
            f"{' + '.join(stage.reads)} -> {' + '.join(stage.writes)}" for stage in self.described.stages
        )

    @cached_property
    def written(self) -> frozenset[str]:
        """The topics that its programs write."""
        return frozenset(topic for stage in self.described.stages for topic in stage.writes)

    @cached_property
    def read(self) -> frozenset[str]:
        """The topics that its programs read."""
        return frozenset(topic for stage in self.described.stages for topic in stage.reads)

    def spec(self, options: RunSizes, tag: str = "") -> PipelineSpec:
        """Return the pipeline spec for a run with these options."""
        if tag:
            return self.tagged(tag).spec(options)
        described = self.described
        names = dict.fromkeys(
            [*described.inputs, *(one for s in described.stages for one in (*s.reads, *s.writes))]
        )
        transactional = any(self._transactional(stage) for stage in described.stages)
        permitted = described.guarantee.permits
        allowed: tuple[str, ...] = (
            (permitted, "offset-output-mismatch", "group-offset-regression") if permitted else ()
        )
        if permitted and described.expect and described.expect.fold:
            allowed += ("corrupt",)  # an input that took effect twice changes every later total
        return PipelineSpec(
            described.name,
            tuple(self._topic(name, options) for name in names),
            tuple(map(self._stage, described.stages)),
            described.guarantee,
            (transactions_goal(), optional_abort_goal()) if transactional else (),
            allowed,
        )

    def _transactional(self, stage: CustomStage) -> bool:
        return self.described.guarantee is Guarantee.EXACTLY_ONCE and stage.transactions

    def _topic(self, name: str, options: RunSizes) -> TopicSpec:
        own = self.described.topics.get(name, CustomTopic())
        identity = RecordIdentity.JOURNAL
        if name in self.written:
            expect = self.described.expect
            by = (
                RecordIdentity.CONTENT
                if expect and expect.correlate == CONTENT
                else RecordIdentity.CORRELATION
            )
            identity = by if expect else RecordIdentity.NONE
            if expect and name_in_file(self.described, name) in expect.final:
                identity = RecordIdentity.FINAL
        return durable_topic(
            name, own.partitions or options.partitions, options.brokers, own.config, identity
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
            writes=stage.writes,
            journaled=False,
            workers=workers,
            transactional_ids=ids,
            txn_timeout_ms=round(1000 * stage.transaction_timeout_s) if self._transactional(stage) else 0,
        )

    def digest(self) -> str:
        """Return a hash of pipeline.toml and its Python files. The check after the run reads them again, so they
        must not change.
        """
        files = sorted({self.described.file, *(function.file for function in self.described.functions)})
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

    def feeds(self) -> Sequence[Feed]:
        """Return the feeds that write its inputs."""
        return [feed_of(topic, inputs) for topic, inputs in self.described.inputs.items()]

    def expectation(self) -> Expectation:
        """Return the expectation of its inputs."""
        expect = self.described.expect
        return NothingExpected() if expect is None else CustomExpectation(self.described, expect)
