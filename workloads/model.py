"""What a workload is: its stages, its inputs, and the statement of what each input must lead to.

The expectation is the transform itself, run once more by the final reader on every input that
stands in the log: each input must lead to exactly those outputs, once. It is stated for the
checkers as rows (input, slot, topic, digest), so they know nothing of what a workload is about.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from harness.history import Isolation


@dataclass(frozen=True)
class Output:
    """One record that an input leads to; `slot` says which of them, the same at each attempt."""

    topic: str
    slot: str
    key: bytes
    value: bytes


Transform = Callable[[bytes, bytes], Sequence[Output]]
"""From key and value of an input to its outputs: deterministic, and without a memory."""


@dataclass(frozen=True)
class Aggregate:
    """A stage that keeps a sum for each key, and writes a key's new sum whenever inputs have changed it."""

    topic: str  # of the sums
    adds: Callable[[bytes, bytes], Sequence[tuple[bytes, int]]]  # what an input adds to which key
    state: Callable[[bytes, bytes], int | None]  # the sum in a record of `topic`, by its key and value


@dataclass(frozen=True)
class Stage:
    """One consume-transform-produce loop, run by several workers in one group."""

    name: str
    in_topic: str
    transform: Transform
    promised: Isolation = Isolation.READ_COMMITTED
    ordered: bool = False  # outputs of one key and slot stand in the order of their inputs of one partition
    aggregate: Aggregate | None = None

    @property
    def group(self) -> str:
        """Its consumer group."""
        return f"fencepost-{self.name}"


@dataclass(frozen=True)
class Workload:
    """A pipeline under test."""

    name: str
    summary: str
    topics: tuple[str, ...]
    fed: str  # the topic that the feeder writes
    make_input: Callable[[Random, int], tuple[bytes, bytes]]  # the n-th input: key and value
    stages: tuple[Stage, ...]
    allowed: frozenset[str] = frozenset()  # anomalies that its guarantee permits

    def stage(self, name: str) -> Stage:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics that stages write."""
        return tuple(topic for topic in self.topics if topic != self.fed)


@dataclass(frozen=True)
class Policy:
    """How the loop works: the default is right, and each defect is one change to it."""

    offsets: str = "in-transaction"  # or "after-commit": by the consumer, outside the transaction
    rewind: bool = True  # seek back after an abort
    stable_id: bool = True  # the transactional id outlives a restart of the worker
    member_metadata: bool = True  # send_offsets bears the metadata of the consumer that polls
    isolation: Mapping[str, Isolation] = field(default_factory=dict)  # by stage, where not as promised
