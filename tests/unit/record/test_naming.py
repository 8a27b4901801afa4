"""The names of records, their headers and their digests."""

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from harness.model.vocabulary import SOURCE_HEADER, TIME_HEADER, VALUE_HEADER
from harness.record.naming import (
    Headers,
    digest,
    fencepost_headers,
    header,
    input_headers,
    key_name,
    output_headers,
    parse_single_source,
    parse_sources,
)

BYTES = st.binary(max_size=20)


def test_the_digest_of_a_repeated_attempt_is_the_same() -> None:
    first = output_headers("w.0:1:0", "invoice", [("in", 0, 7)])
    again = output_headers("w.1:5:3", "invoice", [("in", 0, 7)])
    assert digest(b"k", b"v", first) == digest(b"k", b"v", again)


@given(BYTES, BYTES, BYTES, BYTES)
def test_moving_bytes_from_one_part_to_the_next_changes_the_digest(
    a: bytes, b: bytes, c: bytes, d: bytes
) -> None:
    if (a, b) != (c, d):
        assert digest(a, b, ()) != digest(c, d, ()) or len(a + b) != len(c + d)


def test_a_null_and_an_empty_value_have_different_digests() -> None:
    contents = (None, b"")
    assert len({digest(key, value, ()) for key in contents for value in contents}) == 4
    assert digest(b"k", b"v", [("h", None)]) != digest(b"k", b"v", [("h", b"")])


def test_repeated_or_reordered_headers_have_different_digests() -> None:
    variants: list[Headers] = [
        [("a", b"1"), ("a", b"2")],
        [("a", b"2"), ("a", b"1")],
        [("a", b"1")],
        [("a", b"1"), ("b", b"2")],
        [("a", b"1"), ("a", None)],
        [],
    ]
    assert len({digest(b"k", b"v", headers) for headers in variants}) == len(variants)


def test_a_time_stamp_counts_only_if_a_header_says_that_the_producer_set_it() -> None:
    with_time, without_time = output_headers("v", "s", [], 1_000), output_headers("v", "s", [])
    assert header(with_time, TIME_HEADER) == "1000" and header(without_time, TIME_HEADER) is None
    assert digest(b"k", b"v", with_time, 1_000) != digest(b"k", b"v", with_time, 1_001)
    assert digest(b"k", b"v", without_time, 1_000) == digest(b"k", b"v", without_time, 1_001)


def test_forwarded_headers_follow_the_headers_of_fencepost() -> None:
    forwarded = [(VALUE_HEADER, b"of another"), ("trace", b"a")]
    headers = output_headers("mine", "output_name", [("in", 0, 7)], 5, forwarded)
    assert fencepost_headers(headers) == ("mine", "output_name", "in/0/7")
    assert headers[-2:] == forwarded
    assert input_headers("mine", 5, forwarded) == [(VALUE_HEADER, b"mine"), (TIME_HEADER, b"5"), *forwarded]


def test_another_output_name_or_another_input_changes_the_digest() -> None:
    digests = {
        digest(b"k", b"v", output_headers("x", output_name, [("in", 0, offset)]))
        for output_name in ("a", "b")
        for offset in (1, 2)
    }
    assert len(digests) == 4


def test_inputs_are_parsed_from_the_header_and_invalid_text_has_none() -> None:
    headers = output_headers("v", "s", [("a/b", 1, 2), ("c", 3, 4)])
    assert parse_sources(header(headers, SOURCE_HEADER)) == [("a/b", 1, 2), ("c", 3, 4)]
    assert parse_sources("x/1/-2,,a/b/c,/1/2") == []
    assert header(headers, VALUE_HEADER) == "v"
    assert header(None, VALUE_HEADER) is None


def test_parse_single_source_agrees_with_parse_sources() -> None:
    for text in (
        "in/0/7",
        "a/b/1/2",
        "a/1/2,b/3/4",
        "x/1/-2",
        "in/0/",
        "7",
        "",
        f"in/0/{'1' * 19}",
        "in/0/\u0667",
    ):
        single, sources = parse_single_source(text), parse_sources(text)
        if single is not None:
            assert [(f"{topic}/{partition}", offset) for topic, partition, offset in sources] in (
                [single],
                [],
            )
        else:
            assert len(sources) != 1
    assert parse_single_source("in/0/7") == ("in/0", 7)


def test_a_short_key_has_its_text_as_name_and_others_have_length_and_hash() -> None:
    assert key_name(None) is None
    assert [key_name(key) for key in (b"", b"customer-7", "ö".encode())] == ["", "customer-7", "ö"]
    same_crc = [b"Q" * 61 + b"plumless", b"Q" * 61 + b"buckeroo"]
    assert crc32(same_crc[0]) == crc32(same_crc[1])
    others = [b"\xff", b"#1-ff", b"x" * 65, b"x" * 66, *same_crc]
    names = [key_name(key) for key in others]
    assert len(set(names)) == len(others)
    assert all(name is not None and name.startswith("#") for name in names)
