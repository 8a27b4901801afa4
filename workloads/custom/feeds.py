"""Inputs of a custom pipeline: from a user's function, or from a file of JSON lines."""

import codecs
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import orjson

from harness.common.names import unknown
from harness.model.expectation import Feed, FeedRecord
from harness.results.wording import join_words
from workloads.custom.description import InputSource, UserFunction
from workloads.custom.functions import UserError, as_bytes, call

FIELDS = ("key", "value", "headers")
"""The fields of an input in a file."""
EXAMPLE = '{"key": "...", "value": "..."}'


def feed_of(topic: str, inputs: InputSource) -> Feed:
    """Return the feed of a topic."""
    if inputs.make is not None:
        return Feed(topic, _from_function(inputs.make), inputs.share)
    assert inputs.file is not None
    content = inputs.file.read_bytes().removeprefix(codecs.BOM_UTF8)
    rows = [(number, row) for number, row in enumerate(content.splitlines(), 1) if row.strip()]
    if not rows:
        raise UserError(f"{inputs.file} has no input: write one on each line, like {EXAMPLE}")
    return Feed(topic, _from_lines(str(inputs.file), rows), inputs.share, count=len(rows))


def _from_function(function: UserFunction) -> Callable[[Random, int], FeedRecord]:
    def make(rng: Random, n: int) -> FeedRecord:
        result = call(function, rng, n)
        if not isinstance(result, tuple) or len(result) not in (2, 3):
            raise UserError(f"{function} must return (key, value) or (key, value, headers), not {result!r}")
        return _as_feed_record(str(function), *result)

    return make


def _from_lines(file: str, rows: Sequence[tuple[int, bytes]]) -> Callable[[Random, int], FeedRecord]:
    """Return a function that makes the record of a row. `rows` has the number and the text of each line."""

    def make(rng: Random, n: int) -> FeedRecord:
        number, row = rows[n]
        where = f"{file}: line {number}"
        try:
            body: Mapping[str, Any] = orjson.loads(row)
            key, value, headers = body.get("key"), body["value"], body.get("headers", {})
        except (orjson.JSONDecodeError, KeyError, AttributeError) as error:
            raise UserError(f"{where} must look like {EXAMPLE}") from error
        if other := sorted(body.keys() - {*FIELDS}):
            raise UserError(
                f"{where}: {unknown('field', other[0], FIELDS)}; an input has {join_words(FIELDS)}"
            )
        if isinstance(value, dict | list):
            value = orjson.dumps(value)
        return _as_feed_record(where, key, value, headers)

    return make


def _as_feed_record(where: str, key: object, value: object, headers: object = ()) -> FeedRecord:
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    wrong_headers = UserError(f"{where}: headers must be a mapping or a list of pairs, not {headers!r}")
    if not isinstance(pairs, list | tuple):
        raise wrong_headers
    try:
        checked_pairs = [
            (_header_name(where, name), as_bytes(content, f"{where}: header {name}"))
            for name, content in pairs
        ]
    except (TypeError, ValueError):
        raise wrong_headers from None
    return FeedRecord(
        as_bytes(key, f"{where}: the key"), as_bytes(value, f"{where}: the value"), tuple(checked_pairs)
    )


def _header_name(where: str, name: object) -> str:
    """Return the name as text. Raises `UserError` if Kafka cannot store it."""
    text = str(name)
    as_bytes(text, f"{where}: the name of a header")
    return text
