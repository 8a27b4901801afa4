"""What a plant hands over: by anomaly, for each that must be found, what its example must hold."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.histories import Op
from tests.support.within import is_part_of

Planted = dict[str, list[Mapping[str, Any]]]


def at(op: Op) -> dict[str, Any]:
    return {"operation": {"name": op.name}}


def place(topic: str, offset: int) -> dict[str, Any]:
    return {"topic": topic, "offset": offset}


def record(topic: str, offset: int) -> dict[str, Any]:
    return {"record": place(topic, offset)}


def given(topic: str, offset: int, reader: Op) -> dict[str, Any]:
    return {**record(topic, offset), "reader": {"name": reader.name}}


def taken(topic: str, offset: int) -> dict[str, Any]:
    return {"input": place(topic, offset)}


def each(topic: str, offsets: Sequence[int]) -> list[Mapping[str, Any]]:
    return [record(topic, offset) for offset in offsets]


def differs(planted: Planted, may_be: Planted, said: Mapping[str, Sequence[object]]) -> str | None:
    """Whether the examples are those that were planted, one for one, and beside them only what may be."""
    for name in sorted({*planted, *said}):
        left = list(said.get(name, []))
        for one in planted.get(name, []):
            match = next((example for example in left if is_part_of(one, example)), None)
            if match is None:
                return f"{name}: none of {left} holds {one}"
            left.remove(match)
        for example in left:
            if not any(is_part_of(one, example) for one in may_be.get(name, [])):
                return f"{name}: nobody planted {example}"
    return None
