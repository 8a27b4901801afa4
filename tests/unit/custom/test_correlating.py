"""Outputs are joined to their inputs by what the user names, and judged without what the user leaves out."""

from pathlib import Path

import pytest

from harness.model.expectation import InputRecord
from tests.support.user_pipeline import written
from workloads.custom.correlation import Correlation
from workloads.custom.description import CONTENT, ExpectedOutputs, UserFunction
from workloads.custom.functions import UserError


def record(value: bytes | None = None, key: bytes | None = None, **headers: bytes | None) -> InputRecord:
    return InputRecord("purchases", key, value, 2, 7, list(headers.items()))


@pytest.mark.parametrize(
    ("pointer", "value", "found"),
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
def test_a_pointer_leads_into_the_value(pointer: str, value: bytes | None, found: str | None) -> None:
    assert Correlation(ExpectedOutputs(correlate=f"json:{pointer}")).of_output(record(value)) == found


def test_a_number_joins_what_is_written_as_the_same_number() -> None:
    by = Correlation(ExpectedOutputs(correlate="json:/id"))
    assert by.of_input(record(b'{"id": 12, "x": 1}')) == by.of_output(record(b'{ "id" : 12 }'))


def test_a_header_or_the_key_joins_them_as_text() -> None:
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
    assert by_key.of_output(record(key=b"\xff")) == "\\xff"  # no text, and still the same for the same bytes


def test_a_function_joins_them_and_may_find_nothing(tmp_path: Path) -> None:
    by = Correlation(
        ExpectedOutputs(correlate=UserFunction(written(tmp_path).with_name("expect.py"), "about"))
    )
    assert by.of_output(record(b'{"id": 7}')) == by.of_input(record(b'{"id": 7}')) == "7"
    assert by.of_output(record(b"{}")) is None
    with pytest.raises(UserError, match=r"expect\.py:about raised JSONDecodeError"):
        by.of_input(record(b""))


def test_an_input_in_which_nothing_is_found_is_an_error_that_says_where_it_stands() -> None:
    for correlate in ("json:/id", "header:id", "key"):
        by = Correlation(ExpectedOutputs(correlate=correlate))
        assert by.of_output(record(b"{}")) is None
        with pytest.raises(UserError, match=r"the input at purchases/2 offset 7 .* `correlate` finds no key"):
            by.of_input(record(b"{}"))


def test_by_content_an_output_is_about_what_it_holds_and_an_input_about_nothing() -> None:
    by = Correlation(ExpectedOutputs(correlate=CONTENT))
    assert by.of_input(record(b"v", b"k")) is None
    assert by.of_output(record(b"v", b"k")) == by.content(b"k", b"v") != by.content(b"k", b"w")


def test_null_is_not_empty_and_a_byte_of_the_key_is_none_of_the_value() -> None:
    by = Correlation(ExpectedOutputs())
    parts = [(b"", b""), (None, b""), (b"", None), (None, None), (b"ab", b"c"), (b"a", b"bc")]
    assert len({by.content(*one) for one in parts}) == len({by.digest(*one) for one in parts}) == len(parts)


IGNORING = Correlation(ExpectedOutputs(ignore=("/at", "/meta/host", "/lines/0/at", "/pair/1")))


@pytest.mark.parametrize(
    ("one", "other", "same"),
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
def test_what_is_ignored_is_left_out_whatever_the_order_of_keys(
    one: bytes | None, other: bytes | None, same: bool
) -> None:
    assert (IGNORING.digest(b"k", one) == IGNORING.digest(b"k", other)) is same
    assert (IGNORING.content(b"k", one) == IGNORING.content(b"k", other)) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
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
        (b"[" * 5000, b"[ " * 5000, False),  # too deep for anybody
        (b'{"b": [1, 2]}', b'{"b": [2, 1]}', False),
        (b"1.0", b"1.00", False),  # neither an object nor a list: it may be a text
        (b'{"a": 1', b'{"a":1', False),
    ],
)
def test_json_is_judged_by_what_it_means_and_anything_else_by_every_byte(
    one: bytes, other: bytes, same: bool
) -> None:
    by = Correlation(ExpectedOutputs())
    assert (by.digest(b"k", one) == by.digest(b"k", other)) is same
