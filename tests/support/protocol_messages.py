"""Random messages of any API and version, made from Kafka's schemas."""

import random
from collections.abc import Callable, Iterator
from typing import Any

from harness.protocol.schemas import Api, Field, MessageSchema, Schemas

BOUNDS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def every_message(schemas: Schemas) -> Iterator[tuple[Api, MessageSchema, int]]:
    """Yield each API with its request and its response, in each version."""
    for api in schemas.apis.values():
        for schema in (api.request, api.response):
            for version in range(schema.versions.first, schema.versions.last + 1):
                yield api, schema, version


def random_message(rng: random.Random, schema: MessageSchema, version: int) -> dict[str, Any]:
    """Return a message that has a value in each field. Nullable fields and tagged fields are sometimes left out."""
    return _struct(rng, schema.fields, version)


def _struct(rng: random.Random, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    message = {}
    for each in fields:
        if version in each.versions and (version not in each.tagged or rng.random() < 0.7):
            message[each.name] = _value(rng, each, version)
    return message


def _value(rng: random.Random, field: Field, version: int) -> Any:
    if version in field.nullable and rng.random() < 0.3:
        return None
    if field.is_array:
        return [_element(rng, field, version) for _ in range(rng.randrange(3))]
    return _element(rng, field, version)


def _element(rng: random.Random, field: Field, version: int) -> Any:
    if field.kind in BOUNDS:
        return rng.randint(*BOUNDS[field.kind])
    makers: dict[str, Callable[[], Any]] = {
        "bool": lambda: rng.random() < 0.5,
        "float64": lambda: rng.uniform(-1e9, 1e9),
        "uuid": lambda: rng.randbytes(16),
        "string": lambda: "".join(rng.choices("abcä€", k=rng.randrange(200))),
        "bytes": lambda: rng.randbytes(rng.randrange(200)),
        "records": lambda: rng.randbytes(rng.randrange(200)),
    }
    return makers.get(field.kind, lambda: _struct(rng, field.fields, version))()


def is_same(fields: tuple[Field, ...], theirs: Any, ours: Any, version: int) -> bool:
    """Return whether two messages are equal. Kafka leaves out a tagged field that has its default."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return bool(theirs == ours)
    for field in fields:
        if field.name not in ours:
            continue
        if field.name not in theirs:
            if version not in field.tagged:
                return False
            continue
        left, right = theirs[field.name], ours[field.name]
        if field.is_array and left is not None and right is not None:
            pairs = [*zip(left, right, strict=False)] if len(left) == len(right) else [(0, 1)]
        else:
            pairs = [(left, right)]
        if not all(is_same(field.fields, a, b, version) for a, b in pairs):
            return False
    return True
