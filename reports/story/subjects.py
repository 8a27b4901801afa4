"""The transactional ids and partitions that findings name, and the times of the findings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.results import MOST_S
from harness.results.example import Example, Operation, Part
from harness.results.wording import integer
from reports.story.run import Position, Story

MOST_RECORDS = 50
MOST_INPUTS = 3
Interval = tuple[float, float]
"""The begin and the end of something, in seconds since the start of the run."""


@dataclass(frozen=True)
class ShownFinding:
    """An example of a finding that the report shows, and the anchor of its place there."""

    anomaly: str
    anchor: str
    sentence: str
    span: Interval | None = None  # None: its time is not known
    decides: bool = True  # false for warnings and permitted anomalies


@dataclass(frozen=True)
class Subjects:
    """The names that findings contain."""

    transactional_ids: frozenset[str] = frozenset()
    processes: frozenset[str] = frozenset()  # journals
    operations: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()  # such as `invoices/3`
    producer_ids: frozenset[int] = field(default_factory=frozenset)


def subjects(examples: Iterable[Example]) -> Subjects:
    """Return the names in all parts of these examples."""
    by_key: dict[str, set[object]] = {}
    for example in examples:
        for part in example.parts():
            for key in ("transactional_id", "journal", "name", "producer_id"):
                if isinstance(value := part.get(key), str | int):
                    by_key.setdefault(key, set()).add(value)
            if isinstance(part.get("topic"), str) and integer(part.get("partition")) is not None:
                by_key.setdefault("partition", set()).add(part.partition)
        if isinstance(own := example.facts.get("transactional_id"), str):
            by_key.setdefault("transactional_id", set()).add(own)

    def texts(key: str) -> frozenset[str]:
        return frozenset(value for value in by_key.get(key, ()) if isinstance(value, str))

    producer_ids = frozenset(
        number for value in by_key.get("producer_id", ()) if (number := integer(value)) is not None
    )
    return Subjects(
        texts("transactional_id"), texts("journal"), texts("name"), texts("partition"), producer_ids
    )


def spans(story: Story, examples: Sequence[Example]) -> list[Interval | None]:
    """Return when each example happened: from the start of its first operation to the end of its last one.

    For an example without times of operations, this is the time of its records in the leaders' logs. A finding that is
    an interval, such as `stalled`, has its times itself. Raises `UnreadableInput`.
    """
    placed: list[Interval | None] = [_own_interval(each) or _of_operations(each) for each in examples]
    without = {
        n: _first_positions(story, examples[n]) for n, interval in enumerate(placed) if interval is None
    }
    story.load_batches(position for positions in without.values() for position in positions)
    for n, positions in without.items():
        times_ns = (story.time_of(position) for position in positions)
        times_s = [time_ns / 1e9 for time_ns in times_ns if time_ns is not None]
        placed[n] = (min(times_s), max(times_s)) if times_s else None
    return placed


def _own_interval(example: Example) -> Interval | None:
    times_s = [example.facts.get(name) for name in ("from_s", "to_s")]
    known_s = [float(at_s) for at_s in times_s if isinstance(at_s, int | float) and 0 <= at_s <= MOST_S]
    return (min(known_s), max(known_s)) if len(known_s) == len(times_s) else None


def _of_operations(example: Example) -> Interval | None:
    """A reader reads long after the fact, so its time counts only if there is no other operation."""
    writers = [operation for operation in example.operations if operation.label != "reader"]
    times = [time for operation in writers or example.operations for time in _times_s(operation)]
    return (min(times), max(times)) if times else None


def _times_s(operation: Operation) -> list[float]:
    times_ns = (integer(operation.get(name)) for name in ("call_ns", "commit_ns", "return_ns"))
    return [time_ns / 1e9 for time_ns in times_ns if time_ns is not None]


def _first_positions(story: Story, example: Example) -> list[Position]:
    """Return the positions of its records, or else of its inputs."""
    records = positions_of(story, example.records)
    return records or positions_of(story, (*example.inputs, *example.positions))


def records_of(story: Story, example: Example) -> list[Position]:
    """Return the positions of the first records of an example."""
    return positions_of(story, example.records)


def inputs_of(story: Story, example: Example) -> list[Position]:
    """Return the positions of the first inputs of an example."""
    return positions_of(story, example.inputs, MOST_INPUTS)


def offset_partitions_of(story: Story, example: Example) -> set[int]:
    """Return the partitions whose committed offsets tell about an example: those of its inputs and offsets."""
    numbers = story.tables.numbers
    parts = [(str(part.get("topic")), integer(part.get("partition")) or 0) for part in example.offsets]
    return {numbers[each] for each in parts if each in numbers} | {tp for tp, _ in inputs_of(story, example)}


def positions_of(story: Story, parts: Iterable[Part], most: int = MOST_RECORDS) -> list[Position]:
    """Return the first positions of some parts of an example that are in partitions of the run, each once."""
    positions: dict[Position, None] = {}
    for part in parts:
        offset, partition = integer(part.get("offset")), integer(part.get("partition"))
        tp = story.tables.numbers.get((str(part.get("topic")), partition if partition is not None else -1))
        if tp is not None and offset is not None:
            positions[tp, offset] = None
    return list(positions)[:most]
