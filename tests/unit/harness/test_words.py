import math

import pytest

from harness.common.wording import (
    duration,
    error_code,
    join_words,
    milliseconds,
    number,
    plural,
    printable,
    size,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\u202eb", "a\\u202eb"),
        ("two\nlines", "two\\nlines"),
        ("\ud800", "\\ud800"),
        ("\u00a0", " "),
        (b"\xff\x00", "\\xff\\x00"),
        (None, "unknown"),
        (True, "yes"),
        ({"a": [1]}, '{"a": [1]}'),
        ("für 日本", "für 日本"),
    ],
)
def test_invisible_characters_are_escaped(value: object, shown: str) -> None:
    assert printable(value) == shown


def test_a_long_text_is_shortened_to_its_two_ends() -> None:
    shown = printable("k" * 1_000_000 + "end", 60)
    assert len(shown) < 100
    assert shown.endswith("end")
    assert "999,953 characters left out" in shown


def test_a_cut_is_never_longer_than_what_it_cuts() -> None:
    text = "billing-kafkajs-1 (transaction log, offset 19)"
    assert printable(text, 40) == text


def test_the_code_of_an_error_is_its_start() -> None:
    assert error_code("UNKNOWN_MEMBER_ID (abortable): Failed to commit: x") == "UNKNOWN_MEMBER_ID"
    assert error_code("TimeoutException: no answer") == "TimeoutException"


def test_numbers_have_separators_and_units() -> None:
    assert [number(120034), number(47.25), number(0.5), number(math.inf)] == ["120,034", "47.2", "0.5", "inf"]
    assert [milliseconds(12.345), milliseconds(2500)] == ["12.3 ms", "2.5 s"]
    assert [size(999), size(1500), size(2_000_000)] == ["999 B", "1.5 kB", "2 MB"]
    assert [plural(1, "input"), plural(0, "input")] == ["1 input", "0 inputs"]


def test_the_end_of_a_long_list_is_only_counted() -> None:
    assert join_words(["a"]) == "a"
    assert join_words(["a", "b", "c"]) == "a, b and c"
    assert join_words(list("abcdef")) == "a, b, c and 3 more"
    assert join_words([]) == "nothing"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3540, "59 min"),
        (3599, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (172_740, "47 h 59 min"),
        (273_600, "3 d 04 h"),
    ],
)
def test_a_duration_is_shown_in_units_that_fit_it(seconds: float, words: str) -> None:
    assert duration(seconds) == words
