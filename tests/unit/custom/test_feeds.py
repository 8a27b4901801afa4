"""Inputs come from a function of the user, or from a file of JSON lines."""

import json
from pathlib import Path
from random import Random

import pytest

from harness.model.expectation import FeedRecord
from tests.support.user_pipeline import WITH_OUTPUTS, read_pipeline
from workloads.custom.description import CustomTopic, InputSource, UserFunction
from workloads.custom.feeds import feed_of
from workloads.custom.functions import UserError
from workloads.custom.pipeline import CustomPipeline
from workloads.registry import WORKLOADS


def record_of_function(folder: Path, body: str) -> FeedRecord:
    (folder / "make.py").write_text(f"def make(rng, n):\n    {body}\n")
    return feed_of("in", InputSource(UserFunction(folder / "make.py", "make"))).make(Random(1), 7)


def records_of_file(folder: Path, text: str) -> list[FeedRecord]:
    (folder / "in.jsonl").write_text(text)
    feed = feed_of("in", InputSource(file=folder / "in.jsonl"))
    assert feed.count is not None
    return [feed.make(Random(1), n) for n in range(feed.count)]


def test_a_function_makes_unlimited_inputs_that_depend_on_the_seed(tmp_path: Path) -> None:
    (tmp_path / "make.py").write_text("def make(rng, n):\n    return str(n), str(rng.random())\n")
    feed = feed_of("in", InputSource(UserFunction(tmp_path / "make.py", "make"), share=2.5))
    assert (feed.topic, feed.share, feed.count) == ("in", 2.5, None)
    first, repeated, second = feed.make(Random(1), 0), feed.make(Random(1), 0), feed.make(Random(2), 1)
    assert first == repeated and first.value != second.value
    assert (first.key, second.key) == (b"0", b"1")


@pytest.mark.parametrize(
    ("body", "record"),
    [
        ("return 'k', b'v'", FeedRecord(b"k", b"v")),
        ("return None, None", FeedRecord(None, None)),
        ("return 'ü', ''", FeedRecord("ü".encode(), b"")),
        (
            "return 'k', 'v', {'id': '7', 'none': None}",
            FeedRecord(b"k", b"v", (("id", b"7"), ("none", None))),
        ),
        (
            "return 'k', 'v', [('id', b'1'), ('id', b'2')]",
            FeedRecord(b"k", b"v", (("id", b"1"), ("id", b"2"))),
        ),
    ],
)
def test_the_result_of_a_function_is_converted_to_bytes(
    body: str, record: FeedRecord, tmp_path: Path
) -> None:
    assert record_of_function(tmp_path, body) == record


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return 'v'", "make.py:make must return (key, value), (key, value, headers) or {"),
        ("return 'k', 'v', {}, 1", "must return (key, value), (key, value, headers) or {"),
        ("return 7, 'v'", "make.py:make: the key must be bytes, text or None, not int"),
        ("return 'k', {'id': 1}", "make.py:make: the value must be bytes, text or None, not dict"),
        ("return 'k', 'v', 'id'", "make.py:make: headers must be a mapping or a list of pairs, not 'id'"),
        (
            "return 'k', 'v', ['abc']",
            "make.py:make: headers must be a mapping or a list of pairs, not ['abc']",
        ),
        ("return 'k', 'v', [1]", "make.py:make: headers must be a mapping or a list of pairs, not [1]"),
        ("return 'k', 'v', {'n': 1}", "make.py:make: header n must be bytes, text or None, not int"),
        ("return 1 / 0", "make.py:make raised ZeroDivisionError: division by zero"),
        ("return 'k', '\\ud800'", "make.py:make: the value cannot be encoded as UTF-8"),
        (
            "return 'k', 'v', {'\\ud800': b''}",
            "make.py:make: the name of a header cannot be encoded as UTF-8",
        ),
    ],
)
def test_the_error_for_a_wrong_result_names_the_function(body: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        record_of_function(tmp_path, body)
    assert words in str(refused.value)


def test_each_line_of_a_file_is_one_input_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        '{"key": "k", "value": "v", "headers": {"id": "7"}}\n'
        '{"value": {"b": 1, "a": [2]}}\n'
        '{"key": null, "value": null}\r\n'
        '{"key": "\\u2028", "value": ""}'
    )
    assert records_of_file(tmp_path, text) == [
        FeedRecord(b"k", b"v", (("id", b"7"),)),
        FeedRecord(None, b'{"b":1,"a":[2]}'),
        FeedRecord(None, None),
        FeedRecord("\u2028".encode(), b""),
    ]


def test_blank_lines_and_a_byte_order_mark_are_no_inputs(tmp_path: Path) -> None:
    text = '\ufeff{"value": "v"}\n\n{"value": "w"}\n   \n\n'
    assert records_of_file(tmp_path, text) == [FeedRecord(None, b"v"), FeedRecord(None, b"w")]
    with pytest.raises(UserError, match="line 3 must look like"):
        records_of_file(tmp_path, '\ufeff{"value": "v"}\n\nno JSON\n')


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"])
def test_a_file_without_an_input_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"in\.jsonl has no input: write one on each line"):
        records_of_file(tmp_path, text)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("no JSON", 'line 2 must look like {"key": "...", "value": "..."}'),
        ('{"key": "k"}', 'line 2 must look like {"key": "...", "value": "..."}'),
        ("[1]", 'line 2 must look like {"key": "...", "value": "..."}'),
        (
            '{"value": "v", "timestamp": 7, "zone": 1}',
            'line 2 has an unknown field: there is no field "timestamp"',
        ),
        (
            '{"value": "v", "header": {}}',
            'line 2 has an unknown field: there is no field "header"; did you mean "headers"?',
        ),
        ('{"value": 7}', "line 2: the value must be bytes, text or None, not int"),
        ('{"key": 7, "value": "v"}', "line 2: the key must be bytes, text or None, not int"),
        ('{"value": "v", "headers": "id"}', "line 2: headers must be a mapping or a list of pairs, not 'id'"),
    ],
)
def test_the_error_for_an_invalid_line_names_its_number(line: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        records_of_file(tmp_path, f'{{"value": "v"}}\n{line}\n')
    assert str(refused.value).startswith(f"{tmp_path}/in.jsonl: ") and words in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"partition": 3}, ""),
        (
            {"partition": 4},
            "partition must be a whole number from 0 to 3, because the topic has 4 partitions, not 4",
        ),
        ({"partition": -1}, "partition must be a whole number from 0 to 3"),
        ({"partition": True}, "partition must be a whole number from 0 to 3"),
        ({"timestamp_ms": 1}, ""),
        (
            {"timestamp_ms": -1},
            "timestamp_ms must be the milliseconds since 1970, a whole number from 1 on, not -1",
        ),
        ({"timestamp_ms": 0}, "timestamp_ms must be the milliseconds since 1970"),
        ({"timestamp_ms": 2**63}, "timestamp_ms must be the milliseconds since 1970"),
        ({"timestamp_ms": 1.5}, "timestamp_ms must be the milliseconds since 1970"),
        ({"timestamp_ms": "1"}, "timestamp_ms must be the milliseconds since 1970"),
        ({"headers": 7}, "headers must be a mapping or a list of pairs, not 7"),
        ({"headers": {"n": 1}}, "header n must be bytes, text or None, not int"),
        (
            {"timestamp": 1},
            'has an unknown field: there is no field "timestamp"; did you mean "timestamp_ms"?',
        ),
    ],
)
@pytest.mark.parametrize("source", ["function", "file"])
def test_the_fields_of_an_input_are_checked(
    source: str, fields: dict[str, object], words: str, tmp_path: Path
) -> None:
    body = {"value": "v", **fields}
    (tmp_path / "in.jsonl").write_text(json.dumps(body))
    (tmp_path / "make.py").write_text(f"def make(rng, n):\n    return {body!r}\n")
    inputs = {
        "function": InputSource(UserFunction(tmp_path / "make.py", "make")),
        "file": InputSource(file=tmp_path / "in.jsonl"),
    }
    make = feed_of("in", inputs[source], partitions=4).make
    if not words:
        assert make(Random(1), 0) == FeedRecord(None, b"v", **fields)  # type: ignore[arg-type]
        return
    with pytest.raises(UserError) as refused:
        make(Random(1), 0)
    assert words in str(refused.value)


def test_a_time_stamp_is_refused_if_the_brokers_would_replace_it(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"value": "v", "timestamp_ms": 1}\n')
    settings = CustomTopic(config={"message.timestamp.type": "LogAppendTime"})
    feed = feed_of("in", InputSource(file=tmp_path / "in.jsonl"), settings)
    with pytest.raises(
        UserError, match=r"line 1: timestamp_ms has no effect, because the topic has message\.times"
    ):
        feed.make(Random(1), 0)


def test_inputs_go_where_the_java_client_puts_them_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    pipeline = CustomPipeline(read_pipeline(tmp_path))
    assert [feed.partitioner for feed in pipeline.feeds()] == ["murmur2_random"]
    text = WITH_OUTPUTS.replace("[inputs.purchases]", '[inputs.purchases]\npartitioner = "consistent_random"')
    pipeline = CustomPipeline(read_pipeline(tmp_path, text))
    assert [feed.partitioner for feed in pipeline.feeds()] == ["consistent_random"]
    assert {feed.partitioner for workload in WORKLOADS.values() for feed in workload.feeds()} == {None}


@pytest.mark.parametrize(("largest", "batch"), [("100000", 100_000), ("2000000", None), ("a lot", None)])
def test_a_batch_is_not_larger_than_its_topic_accepts(
    largest: str, batch: int | None, tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text('{"value": "v"}')
    settings = CustomTopic(config={"max.message.bytes": largest})
    assert feed_of("in", InputSource(file=tmp_path / "in.jsonl"), settings).batch_bytes == batch
