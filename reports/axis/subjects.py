"""The transactional ids and partitions that findings name, and the times of the findings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.record.table_reader import RunTables
from harness.results import MOST_S
from harness.results.example import Example, Operation
from harness.results.wording import integer

Span = tuple[float, float]
"""The begin and the end of something, in seconds since the start of the run."""


@dataclass(frozen=True)
class ShownFinding:
    """An example of a finding that the report shows, and the anchor of its place there."""

    anomaly: str
    anchor: str
    sentence: str
    span: Span | None = None  # None: its time is not known
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


def spans(t: RunTables, examples: Sequence[Example]) -> list[Span | None]:
    """Return when each example happened: from the start of its first operation to the end of its last one.

    For an example without times of operations, this is the time of its records in the leaders' logs. A finding that is
    an interval, such as `stalled`, has its times itself. Raises `UnreadableInput`.
    """
    by_operations = [_own_interval(example) or _of_operations(example) for example in examples]
    without = [example for example, span in zip(examples, by_operations, strict=True) if span is None]
    positions = {position for example in without for position in _positions(t, example)}
    times_s = _log_times(t, positions) if positions else {}
    placed = []
    for example, span in zip(examples, by_operations, strict=True):
        own_s = [times_s[position] for position in _positions(t, example) if position in times_s]
        placed.append(span or ((min(own_s), max(own_s)) if own_s else None))
    return placed


def _own_interval(example: Example) -> Span | None:
    times_s = [example.facts.get(name) for name in ("from_s", "to_s")]
    known_s = [float(at_s) for at_s in times_s if isinstance(at_s, int | float) and 0 <= at_s <= MOST_S]
    return (min(known_s), max(known_s)) if len(known_s) == len(times_s) else None


def _of_operations(example: Example) -> Span | None:
    """A reader reads long after the fact, so its time counts only if there is no other operation."""
    writers = [operation for operation in example.operations if operation.label != "reader"]
    times = [time for operation in writers or example.operations for time in _times_s(operation)]
    return (min(times), max(times)) if times else None


def _times_s(operation: Operation) -> list[float]:
    times_ns = (integer(operation.get(name)) for name in ("call_ns", "commit_ns", "return_ns"))
    return [time_ns / 1e9 for time_ns in times_ns if time_ns is not None]


def _positions(t: RunTables, example: Example) -> list[tuple[int, int]]:
    """Return the positions (`tp`, offset) of its records, or else of its inputs."""
    for parts in (example.records, (*example.inputs, *example.positions)):
        positions = [
            (t.numbers[topic, partition], offset)
            for part in parts
            if isinstance(topic := part.get("topic"), str)
            and (partition := integer(part.get("partition"))) is not None
            and (topic, partition) in t.numbers
            and (offset := integer(part.get("offset"))) is not None
        ]
        if positions:
            return positions
    return []


def _log_times(t: RunTables, positions: Iterable[tuple[int, int]]) -> Mapping[tuple[int, int], float]:
    """Return the time of the batch at each of these positions, in seconds since the start of the run."""
    if not t.exists("batches"):
        return {}
    wanted = sorted(positions)
    names = ("tp", "base_offset", "last_offset", "max_timestamp_ms")
    table = t.table("batches", names, leader=[True], tp={tp for tp, _ in wanted})
    table = table.sort_by([("tp", "ascending"), ("base_offset", "ascending")])
    if not len(table):
        return {}
    tp, first, last, time_ms = (table[name].to_numpy().astype(np.int64) for name in names)
    width = max(int(last.max()), *(offset for _, offset in wanted)) + 1  # so that one number is a position
    keys = np.array([tp_wanted * width + offset for tp_wanted, offset in wanted])
    rows = np.searchsorted(tp * width + first, keys, side="right") - 1
    times_s = {}
    for position, key, row in zip(wanted, keys, rows, strict=True):
        if row >= 0 and key <= tp[row] * width + last[row]:
            time_ns = t.at_ns(float(time_ms[row]))
            if time_ns is not None:
                times_s[position] = time_ns / 1e9
    return times_s
