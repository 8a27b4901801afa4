"""What a workload's inputs must lead to: stated by its own transforms, run once more."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from harness.model.expectation import ExpectedOutput, ExpectedSum, InputRecord
from workloads.model.stage import Aggregate, Output, WorkloadStage


@dataclass(frozen=True)
class TransformExpectation:
    """An `Expectation`: the stages' own transforms, run once more."""

    stages: Sequence[WorkloadStage]

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[WorkloadStage]]:
        topics = {topic for stage in self.stages for topic in stage.reads}
        return {topic: [stage for stage in self.stages if topic in stage.reads] for topic in topics}

    @cached_property
    def _origin_readers(self) -> Mapping[str, Sequence[WorkloadStage]]:
        carrying = {
            topic: [one for one in stages if one.names_origins] for topic, stages in self._readers.items()
        }
        return {topic: stages for topic, stages in carrying.items() if stages}

    @cached_property
    def _sums(self) -> Mapping[str, Aggregate]:
        return {stage.aggregate.topic: stage.aggregate for stage in self.stages if stage.aggregate}

    def due(self, record: InputRecord) -> Iterator[ExpectedOutput]:
        """The outputs that it must lead to."""
        for stage in self._readers.get(record.topic, ()):
            if stage.names_origins:
                continue  # what it must do is stated of the inputs of its inputs
            for out in stage.transform(record):
                yield ExpectedOutput(
                    stage.name, out.output_name, out.topic, partial(_held, record.topic, out)
                )
                if out.topic in self._origin_readers:
                    yield from self._expected_of_origin(record.topic, out)

    def _expected_of_origin(self, topic: str, out: Output) -> Iterator[ExpectedOutput]:
        """What comes of an output where stages take it that carry its input on."""
        for stage in self._origin_readers[out.topic]:
            for made in stage.transform(InputRecord(out.topic, out.key, out.value)):
                yield ExpectedOutput(
                    stage.name,
                    made.output_name,
                    made.topic,
                    partial(_held, topic, made),
                    intermediate_topic=out.topic,
                )

    def adds(self, record: InputRecord) -> Iterator[ExpectedSum]:
        """What it adds to sums."""
        for stage in self._readers.get(record.topic, ()):
            if stage.aggregate:
                for key, amount in stage.aggregate.adds(record):
                    yield ExpectedSum(stage.name, stage.aggregate.topic, key, amount)

    def state(self, record: InputRecord) -> int | None:
        """The sum that it states."""
        aggregate = self._sums.get(record.topic)
        return aggregate.state(record) if aggregate else None

    def correlation_key(self, record: InputRecord) -> None:
        """Nothing: outputs of ours name their inputs."""


def _held(topic: str, out: Output, partition: int, offset: int) -> int:
    """The digest of the output that the input at that place must lead to."""
    return out.digest([(topic, partition, offset)])
