"""What workloads are made of: stages, their outputs, and the sums that some of them keep."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.model.expectation import Headers, InputRecord
from harness.model.vocabulary import Guarantee, Isolation
from harness.record.naming import Headers as RecordHeaders
from harness.record.naming import digest, output_headers
from workloads.model.policy import Delivery


class Output(NamedTuple):
    """One record that an input leads to; `output_name` says which of them, the same at each attempt."""

    topic: str
    output_name: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()  # in their order; a name may repeat, and a content be null
    timestamp_ms: int | None = None  # of its own, above 0; None: when it is sent

    def record_headers(self, name: str, sources: Iterable[tuple[str, int, int]]) -> RecordHeaders:
        """All headers of the record that it becomes. `name`: of the attempt."""
        return output_headers(name, self.output_name, sources, self.timestamp_ms, self.headers)

    def digest(self, sources: Iterable[tuple[str, int, int]]) -> int:
        """Of the record that it becomes, where it comes from these inputs."""
        return digest(self.key, self.value, self.record_headers("", sources), self.timestamp_ms)


Transform = Callable[[InputRecord], Sequence[Output]]
"""From an input to its outputs: deterministic, and without a memory."""


@dataclass(frozen=True)
class Aggregate:
    """A stage that keeps a sum for each key, and writes a key's new sum whenever inputs have changed it."""

    topic: str  # of the sums
    adds: Callable[[InputRecord], Sequence[tuple[bytes, int]]]  # what an input adds to which key
    state: Callable[[InputRecord], int | None]  # the sum that a record of `topic` states
    value: Callable[[int], bytes] = b"%d".__mod__  # of the record that states a sum


@dataclass(frozen=True)
class WorkloadStage:
    """One consume-transform-produce loop, run by several workers in one group."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    transform: Transform
    output_names: frozenset[str] = frozenset()  # of its outputs, where a defect asks for one
    promised: Isolation = Isolation.READ_COMMITTED
    ordered: bool = (
        False  # outputs of one key and output name stand in the order of their inputs of one partition
    )
    aggregate: Aggregate | None = None
    delivery: Delivery | None = None  # None: the workload's
    guarantee: Guarantee | None = None  # of what it does with each of its inputs; None: the workload's
    notes: str | None = None  # of the topics that it writes, one for outputs that come of no input

    @property
    def names_origins(self) -> bool:
        """Whether its outputs name the inputs of its inputs: it does once what comes of one of those, however often."""
        return self.delivery is Delivery.KEYED
