"""The result of a plant: by anomaly, a part of the example of each finding that a check must make."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.histories import Op
from tests.support.within import is_part_of

Planted = dict[str, list[Mapping[str, Any]]]


def of_operation(op: Op) -> dict[str, Any]:
    return {"operation": {"name": op.name}}


def position(topic: str, offset: int) -> dict[str, Any]:
    return {"topic": topic, "offset": offset}


def of_record(topic: str, offset: int) -> dict[str, Any]:
    return {"record": position(topic, offset)}


def of_read(topic: str, offset: int, reader: Op) -> dict[str, Any]:
    return {**of_record(topic, offset), "reader": {"name": reader.name}}


def of_input(topic: str, offset: int) -> dict[str, Any]:
    return {"input": position(topic, offset)}


def of_records(topic: str, offsets: Sequence[int]) -> list[Mapping[str, Any]]:
    return [of_record(topic, offset) for offset in offsets]


def find_difference(
    planted: Planted, may_be: Planted, examples: Mapping[str, Sequence[object]]
) -> str | None:
    """Return the first difference between the examples and the planted findings, or None.

    Each planted finding must have one example. Every other example must match a finding in `may_be`.
    """
    for name in sorted({*planted, *examples}):
        left = list(examples.get(name, []))
        for one in planted.get(name, []):
            match = next((example for example in left if is_part_of(one, example)), None)
            if match is None:
                return f"{name}: none of {left} holds {one}"
            left.remove(match)
        for example in left:
            if not any(is_part_of(one, example) for one in may_be.get(name, [])):
                return f"{name}: {example} was not planted"
    return None
