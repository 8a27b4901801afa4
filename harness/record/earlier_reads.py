"""What the final readers of earlier versions wrote into their journals: lines, where today's write parts."""

from collections.abc import Iterator, Sequence
from typing import Any

from harness.history import SENTINEL_VALUE
from harness.record.events import Polled
from harness.record.parts import Numbers

Row = tuple[object, ...]


def rows_of(event: Polled, numbers: Numbers) -> Iterator[tuple[str, Row]]:
    """The rows of the tables `records` and `expected` that a poll tells, without the run; each with its table."""
    for key, contents in (event.contents or {}).items():
        # The first of these versions told no keys and no states.
        names, states = (event.keys or {}).get(key, ()), (event.states or {}).get(key, ())
        for n, row in enumerate(contents):
            name, state = _nth(names, n), _nth(states, n)
            yield "records", _record(numbers, numbers.tp(key), row, name, state)
    for key, rows in (event.expected or {}).items():
        for offset, stage, slot, topic, digest in rows:
            place = (stage, numbers.group(stage), numbers.tp(key), offset)
            yield "expected", (*place, slot, topic, digest, None, None, None, None, None)
    for key, rows in (event.adds or {}).items():
        for offset, stage, topic, to, adds in rows:
            place = (stage, numbers.group(stage), numbers.tp(key), offset)
            yield "expected", (*place, None, topic, None, to, adds, None, None, None)


def _record(numbers: Numbers, tp: int, row: Sequence[Any], name: str | None, state: int | None) -> Row:
    offset, value, slot, digest, timestamp_ms, *sources = row
    inputs = [(numbers.tp(key), at) for key, at in zip(sources[::2], sources[1::2], strict=True)]
    sentinel = value is not None and value.startswith(SENTINEL_VALUE)
    return (tp, offset, value, slot, inputs, digest, timestamp_ms, sentinel, name, state, None, None)


def _nth(values: Sequence[Any], n: int) -> Any:
    return values[n] if n < len(values) else None
