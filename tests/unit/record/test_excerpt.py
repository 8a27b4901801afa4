"""Excerpts of records for human readers."""

import pytest

from harness.record.naming import EXCERPT_LENGTH, excerpt


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (b"c-1", b'{"id": 3}', 'c-1: {"id": 3}'),
        (None, b"x", "x"),
        (b"", b"", ": "),
        (b"c-1", None, "c-1: null"),
        (None, None, "null"),
        (b"\xff", b"\x00\xfe", "\\xff: \x00\\xfe"),
    ],
)
def test_an_excerpt_has_key_and_value(key: bytes | None, value: bytes | None, text: str) -> None:
    assert excerpt(key, value) == text


def test_a_long_record_is_truncated() -> None:
    assert excerpt(b"k", b"v" * 10_000_000) == "k: " + "v" * (EXCERPT_LENGTH - 3) + "..."
    short = "é" * (EXCERPT_LENGTH - 1)
    assert excerpt(None, short.encode()) == short
