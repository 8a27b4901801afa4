"""Outputs are joined to inputs with the correlation key of the user, and compared without the ignored fields."""

from pathlib import Path

import pytest

from harness.model.expectation import InputRecord
from tests.support.user_pipeline import write_pipeline
from workloads.custom.correlation import Correlation
from workloads.custom.description import CONTENT, ExpectedOutputs, UserFunction
from workloads.custom.functions import UserError


def record(value: bytes | None = None, key: bytes | None = None, **headers: bytes | None) -> InputRecord:
    return InputRecord("purchases", key, value, 2, 7, list(headers.items()))


@pytest.mark.parametrize(
    ("pointer", "value", "key"),
    [
        ("/id", b'{"id": "a"}', "a"),
        ("/id", b'{"id": 7}', "7"),
        ("/id", b'{"id": 0}', "0"),
        ("/id", b'{"id": false}', "false"),
        ("/id", b'{"id": {"b": 1, "a": 2}}', '{"a":2,"b":1}'),
        ("/order/lines/1/id", b'{"order": {"lines": [{"id": "a"}, {"id": "b"}]}}', "b"),
        ("/a~1b/c~0d/~01", b'{"a/b": {"c~d": {"~1": "x"}}}', "x"),
        ("/", b'{"": "empty"}', "empty"),
        ("/id", b'{"id": null}', None),
        ("/lines/9", b'{"lines": [1]}', None),
        ("/lines/-1", b'{"lines": [1]}', None),
        ("/id/x", b'{"id": "a"}', None),
        ("/id", b"no JSON", None),
        ("/id", b"", None),
        ("/id", None, None),
    ],
)
def test_a_json_pointer_selects_a_field_of_the_value(
    pointer: str, value: bytes | None, key: str | None
) -> None:
    assert Correlation(ExpectedOutputs(correlate=f"json:{pointer}")).of_output(record(value)) == key


def test_an_equal_number_gives_the_same_correlation_key() -> None:
    correlation = Correlation(ExpectedOutputs(correlate="json:/id"))
    assert correlation.of_input(record(b'{"id": 12, "x": 1}')) == correlation.of_output(
        record(b'{ "id" : 12 }')
    )


def test_a_header_or_the_key_gives_the_correlation_key_as_text() -> None:
    by_header, by_key = (
        Correlation(ExpectedOutputs(correlate="header:id")),
        Correlation(ExpectedOutputs(correlate="key")),
    )
    assert by_header.of_output(record(id=b"a", other=b"b")) == "a"
    assert by_header.of_output(record(other=b"b")) is None
    assert by_header.of_output(record(id=None)) is None
    assert by_key.of_output(record(key=b"k")) == "k"
    assert by_key.of_output(record(key=b"")) == ""
    assert by_key.of_output(record(key=None)) is None
    assert by_key.of_output(record(key=b"\xff")) == "\\xff"  # not UTF-8, but the same key for the same bytes


def test_a_function_gives_the_correlation_key_or_none(tmp_path: Path) -> None:
    correlation = Correlation(
        ExpectedOutputs(correlate=UserFunction(write_pipeline(tmp_path).with_name("expect.py"), "about"))
    )
    assert correlation.of_output(record(b'{"id": 7}')) == correlation.of_input(record(b'{"id": 7}')) == "7"
    assert correlation.of_output(record(b"{}")) is None
    with pytest.raises(UserError, match=r"expect\.py:about raised JSONDecodeError"):
        correlation.of_input(record(b""))


def test_the_error_for_an_input_without_a_correlation_key_names_its_offset() -> None:
    for correlate in ("json:/id", "header:id", "key"):
        correlation = Correlation(ExpectedOutputs(correlate=correlate))
        assert correlation.of_output(record(b"{}")) is None
        with pytest.raises(UserError, match=r"the input at purchases/2 offset 7 .* `correlate` finds no key"):
            correlation.of_input(record(b"{}"))


def test_with_content_only_outputs_have_a_correlation_key() -> None:
    correlation = Correlation(ExpectedOutputs(correlate=CONTENT))
    assert correlation.of_input(record(b"v", b"k")) is None
    assert (
        correlation.of_output(record(b"v", b"k"))
        == correlation.content(b"k", b"v")
        != correlation.content(b"k", b"w")
    )


def test_null_differs_from_empty_and_key_bytes_differ_from_value_bytes() -> None:
    correlation = Correlation(ExpectedOutputs())
    parts = [(b"", b""), (None, b""), (b"", None), (None, None), (b"ab", b"c"), (b"a", b"bc")]
    assert (
        len({correlation.content(*part) for part in parts})
        == len({correlation.digest(*part) for part in parts})
        == len(parts)
    )


IGNORING = Correlation(ExpectedOutputs(ignore=("/at", "/meta/host", "/lines/0/at", "/pair/1")))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (b'{"a": 1, "at": 5}', b'{"at":6,"a":1}', True),
        (b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}', True),
        (b'{"a": 1, "at": 5}', b'{"a": 1}', True),
        (b'{"a": 1, "at": 5}', b'{"a": 2, "at": 5}', False),
        (b'{"meta": {"host": "x", "b": 1}}', b'{"meta": {"b": 1, "host": "y"}}', True),
        (b'{"meta": {"host": "x", "b": 1}}', b'{"meta": {"host": "x", "b": 2}}', False),
        (b'{"meta": "host"}', b'{"meta": "guest"}', False),
        (b'{"lines": [{"n": 1, "at": 5}]}', b'{"lines": [{"n": 1, "at": 6}]}', True),
        (b'{"lines": [{"n": 1, "at": 5}]}', b'{"lines": [{"n": 2, "at": 5}]}', False),
        (b'{"lines": [{}, {"at": 5}]}', b'{"lines": [{}, {"at": 6}]}', False),
        (b"no JSON, at 5", b"no JSON, at 6", False),
        (b'{"pair": [1, 2, 3]}', b'{"pair": [1, 9, 3]}', True),
        (b'{"pair": [1, 2, 3]}', b'{"pair": [1, 2, 4]}', False),
        (b"[1]", b"[2]", False),
        (None, b"null", False),
    ],
)
def test_ignored_fields_and_the_order_of_keys_do_not_matter(
    first: bytes | None, second: bytes | None, same: bool
) -> None:
    assert (IGNORING.digest(b"k", first) == IGNORING.digest(b"k", second)) is same
    assert (IGNORING.content(b"k", first) == IGNORING.content(b"k", second)) is same


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (b'{"a": 1, "b": [1, 2]}', b'{"b":[1,2],"a":1}', True),
        (b'{"a": 1}', b'{"a": 2}', False),
        (b'{"a": 1}', b'{"a": 1.0}', True),
        (b'{"a": 100}', b'{"a": 1e2}', True),
        (b'{"a": 0.1234567890123456789012345678901}', b'{"a": 0.1234567890123456789012345678902}', False),
        (b'{"a": 0.10}', b'{"a": 1e-1}', True),
        (b'{"a": 0.0}', b'{"a": 0}', True),
        (b'{"a": -1.50}', b'{"a": 1.5}', False),
        (b'{"a": 1e999999}', b'{"a": 10e999998}', True),
        (b'{"a": 1e999999}', b'{"a": 1e999998}', False),
        (b'{"a": 1.5}', b'{"a": "15e-1"}', False),
        (b'{"a": 0.5}', b'{"a": 0.50}', True),
        (b'{"a": 0.5}', b'{"a": "0.5"}', False),
        (b'{"a": 18446744073709551616}', b'{"a": 18446744073709551617}', False),
        (b"[" * 5000, b"[ " * 5000, False),  # nested too deeply for a parser
        (b'{"b": [1, 2]}', b'{"b": [2, 1]}', False),
        (b"1.0", b"1.00", False),  # neither an object nor a list, so it is not read as JSON
        (b'{"a": 1', b'{"a":1', False),
    ],
)
def test_json_is_compared_by_meaning_and_other_values_by_bytes(
    first: bytes, second: bytes, same: bool
) -> None:
    correlation = Correlation(ExpectedOutputs())
    assert (correlation.digest(b"k", first) == correlation.digest(b"k", second)) is same
