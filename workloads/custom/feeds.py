"""Inputs of a custom pipeline: from a user's function, or from a file of JSON lines."""

import codecs
from collections.abc import Callable, Mapping, Sequence
from random import Random

import orjson

from harness.common.wording import unknown
from harness.model.expectation import Feed, FeedRecord
from workloads.custom.description import CustomTopic, InputSource, UserFunction
from workloads.custom.functions import UserError, as_bytes, as_headers, as_partition, as_timestamp_ms, call

FIELDS = ("key", "value", "headers", "timestamp_ms", "partition")
"""The fields of an input in a line of a file, or in a dict that a function returns."""
LINE = '{"key": "...", "value": "..."}'
FORMS = f"(key, value), (key, value, headers) or {LINE}"
DEFAULT_BATCH_BYTES = 1_000_000
"""The largest batch of librdkafka, which a topic without `max.message.bytes` accepts."""
AsFeedRecord = Callable[[str, Mapping[str, object]], FeedRecord]
"""Makes a record from the fields of an input. The text names the input in messages."""


def feed_of(
    topic: str, inputs: InputSource, settings: CustomTopic | None = None, partitions: int | None = None
) -> Feed:
    """Return the feed of a topic.

    Args:
        settings: the settings of the topic in the file; None: it has none.
        partitions: the number of partitions of the topic; None: it is not known.
    """
    settings = settings or CustomTopic()

    def as_feed_record(where: str, fields: Mapping[str, object]) -> FeedRecord:
        return _as_feed_record(where, fields, settings, partitions)

    largest = settings.config.get("max.message.bytes", "")
    batch_bytes = max(1, int(largest)) if largest.isdecimal() and int(largest) < DEFAULT_BATCH_BYTES else None
    if inputs.make is not None:
        make, count = _from_function(inputs.make, as_feed_record), None
    else:
        assert inputs.file is not None
        content = inputs.file.read_bytes().removeprefix(codecs.BOM_UTF8)
        rows = [(number, row) for number, row in enumerate(content.splitlines(), 1) if row.strip()]
        if not rows:
            raise UserError(f"{inputs.file} has no input: write one on each line, like {LINE}")
        make, count = _from_lines(str(inputs.file), rows, as_feed_record), len(rows)
    return Feed(topic, make, inputs.share, count, inputs.partitioner, batch_bytes)


def _from_function(
    function: UserFunction, as_feed_record: AsFeedRecord
) -> Callable[[Random, int], FeedRecord]:
    def make(rng: Random, n: int) -> FeedRecord:
        result = call(function, rng, n)
        if isinstance(result, tuple) and len(result) in (2, 3):
            result = dict(zip(FIELDS, result, strict=False))
        if not isinstance(result, dict) or "value" not in result:
            raise UserError(f"{function} must return {FORMS}, not {result!r}")
        return as_feed_record(str(function), result)

    return make


def _from_lines(
    file: str, rows: Sequence[tuple[int, bytes]], as_feed_record: AsFeedRecord
) -> Callable[[Random, int], FeedRecord]:
    """Return a function that makes the record of a row. `rows` has the number and the text of each line."""

    def make(rng: Random, n: int) -> FeedRecord:
        number, row = rows[n]
        where = f"{file}: line {number}"
        try:
            body = orjson.loads(row)
        except orjson.JSONDecodeError as error:
            raise UserError(f"{where} must look like {LINE}") from error
        if not isinstance(body, dict) or "value" not in body:
            raise UserError(f"{where} must look like {LINE}")
        if isinstance(body["value"], dict | list):
            body["value"] = orjson.dumps(body["value"])
        return as_feed_record(where, body)

    return make


def _as_feed_record(
    where: str, fields: Mapping[str, object], settings: CustomTopic, partitions: int | None
) -> FeedRecord:
    for name in fields:
        if name not in FIELDS:
            raise UserError(f"{where} has an unknown field: {unknown('field', str(name), FIELDS)}")
    return FeedRecord(
        as_bytes(fields.get("key"), f"{where}: the key"),
        as_bytes(fields["value"], f"{where}: the value"),
        as_headers(where, fields.get("headers")),
        as_timestamp_ms(where, fields.get("timestamp_ms"), settings),
        as_partition(where, fields.get("partition"), partitions),
    )
