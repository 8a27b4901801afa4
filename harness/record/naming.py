"""How records name themselves: values, sources, output names, and the digest of what they hold."""

import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

from harness.model.vocabulary import OUTPUT_NAME_HEADER, SOURCE_HEADER, TIME_HEADER, VALUE_HEADER

Headers = list[tuple[str, str | bytes | None]]
"""As the client library has them; ours are all bytes."""
Place = tuple[str, int, int]
"""Topic, partition, offset."""
EXCERPT_LENGTH = 240
"""Characters of what a record holds that are kept for people to read."""
KEY_LENGTH = 64
"""A longer key is named by its length and its CRC-32."""
_MOST_DIGITS = 18  # of an offset: what has more is none, and fits into no table
_PARTITION_DIGITS = 9


def value_name(journal: str, op: int, n: int) -> str:
    """The name of the n-th attempt to send of an operation: unique in the run."""
    return f"{journal}:{op}:{n}"


def operation_name(journal: str, op: int) -> str:
    """As it stands in the metadata of an offset commit."""
    return f"{journal}:{op}"


def input_headers(
    value: str, timestamp_ms: int | None = None, more: Sequence[tuple[str, bytes | None]] = ()
) -> Headers:
    """What an input says of itself. `timestamp_ms`: that it is given; `more`: the headers that the feed makes."""
    timed = [] if timestamp_ms is None else [(TIME_HEADER, b"%d" % timestamp_ms)]
    return [(VALUE_HEADER, value.encode()), *timed, *more]


def output_headers(
    value: str,
    output_name: str,
    sources: Iterable[Place],
    timestamp_ms: int | None = None,
    more: Sequence[tuple[str, bytes | None]] = (),
) -> Headers:
    """What an output says of itself, and its own headers behind that (`more`)."""
    places = ",".join([f"{topic}/{partition}/{offset}" for topic, partition, offset in sources])
    named: Headers = [
        (VALUE_HEADER, value.encode()),
        (OUTPUT_NAME_HEADER, output_name.encode()),
        (SOURCE_HEADER, places.encode()),
    ]
    if timestamp_ms is not None:
        named.append((TIME_HEADER, b"%d" % timestamp_ms))
    named += more
    return named


def excerpt(key: bytes | None, value: bytes | None) -> str:
    """What a record holds, for people to read: `KEY: VALUE`, or the value alone; cut short."""
    shown = [
        "null" if part is None else part[: 4 * EXCERPT_LENGTH].decode(errors="backslashreplace")
        for part in (key, value)
    ]
    text = shown[1] if key is None else ": ".join(shown)
    return text if len(text) <= EXCERPT_LENGTH else f"{text[:EXCERPT_LENGTH]}..."


def digest(
    key: bytes | None, value: bytes | None, headers: Headers | tuple[()], timestamp_ms: int | None = None
) -> int:
    """CRC-32 of key, value and all headers but the value's name; and of the time stamp, where a header says that
    it is the producer's own.

    The name differs at each attempt, the rest repeats when an attempt is repeated. Lengths are
    part of it, so that bytes cannot move from one part to the next unseen, and a null is not empty. A
    corruption escapes it once in four billion.
    """
    # Millions of records come by here: so it calls little.
    lengths = f"{-1 if key is None else len(key)} {-1 if value is None else len(value)} "
    parts = [lengths.encode(), key or b"", value or b""]
    for name, content in headers:
        if name == VALUE_HEADER:
            continue
        if content is None:
            parts.append(f"{name} -1 ".encode())
        else:
            held = content if type(content) is bytes else _bytes(content)
            parts.append(f"{name} {len(held)} ".encode())
            parts.append(held)
        if name == TIME_HEADER:
            parts.append(f"@{timestamp_ms} ".encode())
    return zlib.crc32(b"".join(parts))


def key_name(key: bytes | None) -> str | None:
    """A key as the tables name it: its text if it is short and has one, else its length and CRC-32.

    Two keys share a name as seldom as two records share a digest.
    """
    if key is None:
        return None
    return _named_before(key) if len(key) <= KEY_LENGTH else _named(key)


def _named(key: bytes) -> str:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    if (text or not key) and len(text) <= KEY_LENGTH and not text.startswith("#"):
        return text
    return f"#{len(key)}-{zlib.crc32(key):08x}"


_named_before = lru_cache(maxsize=10_000)(_named)
"""The same for short keys, which repeat."""


def header(headers: Headers | None, name: str) -> str | None:
    """The first header of that name; None: there is none."""
    for found, content in headers or ():
        if found == name and content is not None:
            return _bytes(content).decode(errors="replace")
    return None


def fencepost_headers(headers: Headers) -> tuple[str | None, str | None, str | None]:
    """What a record says of itself, as `header` finds it: value, output name, inputs."""
    value = output_name = source = None
    for name, content in headers:
        if content is None:
            continue
        if name == VALUE_HEADER:
            value = _text(content) if value is None else value
        elif name == OUTPUT_NAME_HEADER:
            output_name = _text(content) if output_name is None else output_name
        elif name == SOURCE_HEADER:
            source = _text(content) if source is None else source
    return value, output_name, source


def _text(content: str | bytes) -> str:
    return (
        content.decode(errors="replace")
        if type(content) is bytes
        else _bytes(content).decode(errors="replace")
    )


def _bytes(content: str | bytes | None) -> bytes:
    return content.encode() if isinstance(content, str) else content or b""


def parse_sources(text: str | None) -> list[Place]:
    """The inputs that a record names; what does not parse names none."""
    places: list[Place] = []
    for part in (text or "").split(","):
        topic, _, rest = part.rpartition("/")
        topic, _, partition = topic.rpartition("/")
        if topic and _counts(partition, _PARTITION_DIGITS) and _counts(rest, _MOST_DIGITS):
            places.append((topic, int(partition), int(rest)))
    return places


def parse_single_source(text: str) -> tuple[str, int] | None:
    """The partition, as `partition_key` has it, and the offset, where a record names one input alone, or None. Whether
    there is such a partition is for the caller to know. It costs half of what `parse_sources` does.
    """
    partition, _, offset = text.rpartition("/")
    return (partition, int(offset)) if _counts(offset, _MOST_DIGITS) and "," not in partition else None


def _counts(text: str, most: int) -> bool:
    """Whether it is a number from 0 on, as Kafka writes them."""
    return text.isascii() and text.isdecimal() and len(text) <= most


def partition_key(topic: str, partition: int) -> str:
    """A partition as journals name it."""
    return f"{topic}/{partition}"


def split_partition(key: str) -> tuple[str, int]:
    """The inverse of `partition_key`."""
    topic, _, partition = key.rpartition("/")
    return topic, int(partition)
