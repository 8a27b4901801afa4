"""Inputs that a user describes: made by a function, or read from a file of JSON lines."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import orjson

from harness.model.expectation import Feed, FeedRecord
from workloads.custom.description import InputSource, UserFunction
from workloads.custom.functions import UserError, as_bytes, call


def feed_of(topic: str, inputs: InputSource) -> Feed:
    """Where the inputs of a topic come from."""
    if inputs.make is not None:
        return Feed(topic, _made(inputs.make), inputs.share)
    assert inputs.file is not None
    rows = inputs.file.read_bytes().splitlines()
    return Feed(topic, _read(str(inputs.file), rows), inputs.share, count=len(rows))


def _made(function: UserFunction) -> Callable[[Random, int], FeedRecord]:
    def make(rng: Random, n: int) -> FeedRecord:
        given = call(function, rng, n)
        if not isinstance(given, tuple) or len(given) not in (2, 3):
            raise UserError(f"{function} must give (key, value) or (key, value, headers), not {given!r}")
        return _fed(str(function), *given)

    return make


def _read(file: str, rows: Sequence[bytes]) -> Callable[[Random, int], FeedRecord]:
    def make(rng: Random, n: int) -> FeedRecord:
        try:
            body: Mapping[str, Any] = orjson.loads(rows[n])
            key, value, headers = body.get("key"), body["value"], body.get("headers", {})
        except (orjson.JSONDecodeError, KeyError, AttributeError) as error:
            raise UserError(f'{file}: line {n + 1} must be as {{"key": "...", "value": "..."}}') from error
        if isinstance(value, dict | list):
            value = orjson.dumps(value)
        return _fed(f"{file}: line {n + 1}", key, value, headers)

    return make


def _fed(where: str, key: object, value: object, headers: object = ()) -> FeedRecord:
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    wrong = UserError(f"{where}: headers must be a mapping, or pairs, not {headers!r}")
    if not isinstance(pairs, list | tuple):
        raise wrong
    try:
        named = [
            (_name(where, name), as_bytes(content, f"{where}: header {name}")) for name, content in pairs
        ]
    except (TypeError, ValueError):
        raise wrong from None
    return FeedRecord(
        as_bytes(key, f"{where}: the key"), as_bytes(value, f"{where}: the value"), tuple(named)
    )


def _name(where: str, name: object) -> str:
    """Of a header. Raises `UserError` where Kafka could not have it."""
    text = str(name)
    as_bytes(text, f"{where}: the name of a header")
    return text
