"""The expectation of a workload: the transforms of its stages, applied again to the inputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from harness.model.expectation import ExpectedOutput, ExpectedSum, InputRecord
from workloads.model.stage import Aggregate, Output, WorkloadStage


@dataclass(frozen=True)
class TransformExpectation:
    """An `Expectation` that applies the stages' own transforms to each input."""

    stages: Sequence[WorkloadStage]

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[WorkloadStage]]:
        topics = {topic for stage in self.stages for topic in stage.reads}
        return {topic: [stage for stage in self.stages if topic in stage.reads] for topic in topics}

    @cached_property
    def _origin_readers(self) -> Mapping[str, Sequence[WorkloadStage]]:
        readers = {
            topic: [stage for stage in stages if stage.names_origins]
            for topic, stages in self._readers.items()
        }
        return {topic: stages for topic, stages in readers.items() if stages}

    @cached_property
    def _sums(self) -> Mapping[str, Aggregate]:
        return {stage.aggregate.topic: stage.aggregate for stage in self.stages if stage.aggregate}

    def expected_outputs(self, record: InputRecord) -> Iterator[ExpectedOutput]:
        """Yield the expected outputs of an input."""
        for stage in self._readers.get(record.topic, ()):
            if stage.names_origins:
                continue  # its outputs name the inputs of its inputs as sources: see _expected_of_origin
            for out in stage.transform(record):
                yield ExpectedOutput(
                    stage.name, out.output_name, out.topic, partial(_digest_of, record.topic, out)
                )
                if out.topic in self._origin_readers:
                    yield from self._expected_of_origin(record.topic, out)

    def _expected_of_origin(self, topic: str, out: Output) -> Iterator[ExpectedOutput]:
        """Yield the expected outputs of the stages that read `out` and name its input as their source."""
        for stage in self._origin_readers[out.topic]:
            for origin_output in stage.transform(InputRecord(out.topic, out.key, out.value)):
                yield ExpectedOutput(
                    stage.name,
                    origin_output.output_name,
                    origin_output.topic,
                    partial(_digest_of, topic, origin_output),
                    intermediate_topic=out.topic,
                )

    def expected_sums(self, record: InputRecord) -> Iterator[ExpectedSum]:
        """Yield the amounts that an input adds to sums."""
        for stage in self._readers.get(record.topic, ()):
            if stage.aggregate:
                for key, amount in stage.aggregate.adds(record):
                    yield ExpectedSum(stage.name, stage.aggregate.topic, key, amount)

    def held_sum(self, record: InputRecord) -> int | None:
        """Return the sum in a record, or None if it holds none."""
        aggregate = self._sums.get(record.topic)
        return aggregate.state(record) if aggregate else None

    def correlation_key(self, record: InputRecord) -> None:
        """Return None, because outputs of a workload name their inputs in a header."""


def _digest_of(topic: str, out: Output, partition: int, offset: int) -> int:
    """Return the digest of the output that the input at this position must lead to."""
    return out.digest([(topic, partition, offset)])
