"""The inputs of a pipeline, and the expected outputs of each input.

A long run has millions of them. They are named tuples because creating one takes a third of the time of a frozen
dataclass.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol

Headers = Sequence[tuple[str, bytes | None]]


class InputRecord(NamedTuple):
    """A record that a pipeline reads. A null key or value is None; an empty one is `b""`."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = 0
    offset: int = 0
    headers: Headers = ()  # without the headers that Fencepost adds
    timestamp_ms: int = 0


class FeedRecord(NamedTuple):
    """A record that a feed makes for the feeder to send."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None  # None: the time at which the record is sent
    partition: int | None = None  # None: the partitioner of the feed chooses it


@dataclass(frozen=True)
class Feed:
    """A source of inputs: the feeder writes records to a topic, at a share of the rate of the run."""

    topic: str
    make: Callable[[Random, int], FeedRecord]  # makes the n-th input
    share: float = 1.0
    count: int | None = None  # the number of records; None: as many as the rate requires
    partitioner: str | None = None  # one of librdkafka's; None: librdkafka's default, `consistent_random`
    batch_bytes: int | None = None  # the largest batch that the topic accepts; None: that of Kafka's default
    per_partition: int | None = (
        None  # instead of `count`: the number of records for each partition of the topic
    )


class ExpectedOutput(NamedTuple):
    """An expected output of an input: the stage that makes it, its name, its topic and its content."""

    stage: str
    output_name: str
    topic: str
    digest: Callable[[int, int], int]  # of the output, from the partition and offset of the input
    # The topic between the input and the stage, if another stage makes a record there first. None: the stage reads
    # the input itself.
    intermediate_topic: str | None = None
    # The field by which the output is joined to its input. None: the output names its inputs in a header.
    correlation_key: str | None = None
    content: str | None = None  # the expected content, shortened by `harness.record.naming.excerpt`


class ExpectedSum(NamedTuple):
    """The amount that an input adds to a sum. The record of `key` in `topic` holds the sum."""

    stage: str
    topic: str
    key: bytes
    amount: int
    content: str | None = None  # of a custom pipeline: the expected content of the key's last record


class CorrelationKey(NamedTuple):
    """The key that joins an output of a custom pipeline to its input."""

    key: str | None  # equal to `ExpectedOutput.correlation_key`; None: the record has no such field
    digest: int  # of the part of the content that is checked
    more: str = ""  # for human readers: what is checked in addition to key and value


class Expectation(Protocol):
    """The expected outputs of a pipeline's inputs. Only the final readers call it."""

    def expected_outputs(self, record: InputRecord) -> Iterable[ExpectedOutput]:
        """Return the expected outputs of an input, each once."""
        ...

    def expected_sums(self, record: InputRecord) -> Iterable[ExpectedSum]:
        """Return the amounts that an input adds to sums."""
        ...

    def held_sum(self, record: InputRecord) -> int | None:
        """Return the sum that an output holds for its key. None: the record holds no sum."""
        ...

    def correlation_key(self, record: InputRecord) -> "CorrelationKey | None":
        """Return the correlation key of an output of a custom pipeline. None: the outputs of its topic have none."""
        ...
