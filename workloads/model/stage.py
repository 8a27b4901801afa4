"""The building blocks of workloads: stages, outputs, aggregates, and the expectation that follows from stages."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from harness.model.expectation import ExpectedOutput, ExpectedSum, Headers, InputRecord
from harness.model.vocabulary import Guarantee, Isolation
from harness.record.naming import Headers as RecordHeaders
from harness.record.naming import digest, output_headers
from workloads.model.policy import Delivery


class Output(NamedTuple):
    """A record that an input leads to.

    `output_name` distinguishes the outputs of one input. It is the same at each attempt.
    """

    topic: str
    output_name: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()  # ordered; a name can repeat, and a value can be null
    timestamp_ms: int | None = None  # above 0; None: the client sets it when it sends the record

    def record_headers(self, name: str, sources: Iterable[tuple[str, int, int]]) -> RecordHeaders:
        """Return all headers of the record.

        `name` is the name of the attempt. `sources` has (topic, partition, offset) of each input.
        """
        return output_headers(name, self.output_name, sources, self.timestamp_ms, self.headers)

    def digest(self, sources: Iterable[tuple[str, int, int]]) -> int:
        """Return the digest that the record has if it comes from these inputs (topic, partition, offset)."""
        return digest(self.key, self.value, self.record_headers("", sources), self.timestamp_ms)


Transform = Callable[[InputRecord], Sequence[Output]]
"""A function from an input to its outputs. It must be deterministic and keep no state."""


@dataclass(frozen=True)
class Aggregate:
    """A sum for each key. A stage with an aggregate writes a key's new sum whenever inputs change it."""

    topic: str  # the topic that holds the sums
    adds: Callable[[InputRecord], Sequence[tuple[bytes, int]]]  # the (key, amount) pairs that an input adds
    state: Callable[[InputRecord], int | None]  # the sum in a record of `topic`; None: it holds none
    value: Callable[[int], bytes] = b"%d".__mod__  # encodes a sum as a record value


@dataclass(frozen=True)
class WorkloadStage:
    """One consume-transform-produce loop, run by several workers in one consumer group."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    transform: Transform
    output_names: frozenset[str] = frozenset()  # names of its outputs that a defect can require
    promised: Isolation = Isolation.READ_COMMITTED
    ordered: bool = (
        False  # outputs of one key and output name follow the order of their inputs in a partition
    )
    aggregate: Aggregate | None = None
    delivery: Delivery | None = None  # None: that of the workload
    guarantee: Guarantee | None = None  # for each of its inputs; None: that of the workload
    notes: str | None = None  # the topic, one of `writes`, for outputs without an input

    @property
    def names_origins(self) -> bool:
        """Whether its outputs name the inputs of its inputs (their origins) as sources.

        Such a stage applies each origin once, even if several of its inputs come from one origin.
        """
        return self.delivery is Delivery.KEYED


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
