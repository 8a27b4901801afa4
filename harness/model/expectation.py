"""What goes into a pipeline, and what must come of it.

There are millions of these in a long run: so they are named tuples, which are made three times as fast as frozen
dataclasses.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol

Headers = Sequence[tuple[str, bytes | None]]


class InputRecord(NamedTuple):
    """A record as a pipeline is given it. A null key or value is None, which is not an empty one."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = 0
    offset: int = 0
    headers: Headers = ()  # without those of the run's own
    timestamp_ms: int = 0


class FeedRecord(NamedTuple):
    """A record that a feed makes."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None  # None: when it is sent


@dataclass(frozen=True)
class Feed:
    """Where inputs come from: a topic that the run's feeder writes, at a share of the rate."""

    topic: str
    make: Callable[[Random, int], FeedRecord]  # the n-th input
    share: float = 1.0
    count: int | None = None  # how many there are; None: as many as are asked for


class ExpectedOutput(NamedTuple):
    """An output that an input must lead to: which one of them (output name), where, and what it must hold."""

    stage: str
    output_name: str
    topic: str
    digest: Callable[[int, int], int]  # of the output, by the input's partition and offset
    intermediate_topic: str | None = (
        None  # the topic whose record, made of the input, the stage takes; None: the input itself
    )
    correlation_key: str | None = (
        None  # by what the output is joined to the input; None: it names its inputs itself
    )
    content: str | None = None  # what it must hold, as `harness.record.naming.excerpt` has it


class ExpectedSum(NamedTuple):
    """What an input adds to a sum: the key in `topic` whose record holds it, and how much."""

    stage: str
    topic: str
    key: bytes
    amount: int
    content: str | None = (
        None  # what its last record must hold by then, where a program of a user's writes it
    )


class CorrelationKey(NamedTuple):
    """What joins a record to its input, where it does not bear its input's place."""

    by: str | None  # the same text as in `ExpectedOutput.about`; None: nothing in it can be found there
    digest: int  # of all that is judged of what it holds


class Expectation(Protocol):
    """What a pipeline's inputs must lead to. Asked by the final readers alone."""

    def due(self, record: InputRecord) -> Iterable[ExpectedOutput]:
        """The outputs that it must lead to, each once."""
        ...

    def adds(self, record: InputRecord) -> Iterable[ExpectedSum]:
        """What it adds to sums."""
        ...

    def state(self, record: InputRecord) -> int | None:
        """The sum that the record states for its key; None: it states none."""
        ...

    def correlation_key(self, record: InputRecord) -> "CorrelationKey | None":
        """What an output of a program that keeps no journal says of its input; None: nothing that could join them."""
        ...
