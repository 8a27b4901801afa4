"""The building blocks of workloads: stages, outputs, and aggregates."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.model.expectation import Headers, InputRecord
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
