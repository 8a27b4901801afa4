"""The names and headers of records, the digest of their content, and the numbers of partitions.

Partitions are numbered from 0, and tables call the number `tp`. The partitions in the run plan have their numbers
before any process starts. Each process that writes `tp` gets the same plan, so tables need no renumbering. Internal
topics, and topics that a custom pipeline has created, are discovered after the run. The process that writes the tables
gives their partitions the next numbers.

A topic of the plan may get more partitions during the run. Every process computes the numbers of these from the plan.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from zlib import crc32

from harness.model.vocabulary import OUTPUT_NAME_HEADER, SOURCE_HEADER, TIME_HEADER, VALUE_HEADER

Headers = list[tuple[str, str | bytes | None]]
"""Headers as the client library returns them. The values of Fencepost's headers are bytes."""
RecordPosition = tuple[str, int, int]
"""Topic, partition, offset."""
EXCERPT_LENGTH = 240
"""The number of characters of an excerpt of a record."""
KEY_LENGTH = 64
"""The name of a longer key is its length and a hash."""
_MOST_DIGITS = 18  # of an offset: a longer number is not an offset, and does not fit into 64 bits
_PARTITION_DIGITS = 9
_HASHES = 2**30
_FIRST_ADDED = 1 << 20
"""The least number of a partition that a topic of the plan got during the run. A plan has fewer partitions."""
_MOST_PARTITIONS = 10_000
"""Above the number of partitions that a topic of a test can get. So all numbers are below 2^23 (`reports.story`)."""


def value_name(journal: str, op: int, n: int) -> str:
    """Return the name of the n-th attempt of an operation, which is unique in the run."""
    return f"{journal}:{op}:{n}"


def operation_name(journal: str, op: int) -> str:
    """Return the name of an operation. The metadata of its offset commits contains it."""
    return f"{journal}:{op}"


def input_headers(
    value: str, timestamp_ms: int | None = None, more: Sequence[tuple[str, bytes | None]] = ()
) -> Headers:
    """Return the headers of an input.

    Args:
        value: the name of the attempt.
        timestamp_ms: the time stamp that the feeder sets; None: the feeder sets none.
        more: the headers of the feed.
    """
    time_header = [] if timestamp_ms is None else [(TIME_HEADER, b"%d" % timestamp_ms)]
    return [(VALUE_HEADER, value.encode()), *time_header, *more]


def output_headers(
    value: str,
    output_name: str,
    sources: Iterable[RecordPosition],
    timestamp_ms: int | None = None,
    more: Sequence[tuple[str, bytes | None]] = (),
) -> Headers:
    """Return the headers of an output: Fencepost's headers, then the headers of the pipeline (`more`)."""
    positions = ",".join([f"{topic}/{partition}/{offset}" for topic, partition, offset in sources])
    headers: Headers = [
        (VALUE_HEADER, value.encode()),
        (OUTPUT_NAME_HEADER, output_name.encode()),
        (SOURCE_HEADER, positions.encode()),
    ]
    if timestamp_ms is not None:
        headers.append((TIME_HEADER, b"%d" % timestamp_ms))
    headers += more
    return headers


def excerpt(key: bytes | None, value: bytes | None, more: str = "") -> str:
    """Return the content of a record for human readers: `KEY: VALUE`, or only the value; truncated.

    `more` is a text about other parts of the record. It follows, truncated as well.
    """
    shown = [
        "null" if part is None else part[: 4 * EXCERPT_LENGTH].decode(errors="backslashreplace")
        for part in (key, value)
    ]
    text = shown[1] if key is None else ": ".join(shown)
    return _truncated(text) + _truncated(more)


def _truncated(text: str) -> str:
    return text if len(text) <= EXCERPT_LENGTH else f"{text[:EXCERPT_LENGTH]}..."


def digest(
    key: bytes | None, value: bytes | None, headers: Headers | tuple[()], timestamp_ms: int | None = None
) -> int:
    """Return the CRC-32 of a record's key, value and headers, without the name of the attempt.

    Only that name differs when a record is sent again. If a header says that the producer set the time stamp, the time
    stamp is included. Lengths are included, so that a byte that moves from one part to the next changes the digest, and
    a null differs from an empty value. One corruption in four billion is not detected.
    """
    # It is called for millions of records, so it avoids calls.
    lengths = f"{-1 if key is None else len(key)} {-1 if value is None else len(value)} "
    parts = [lengths.encode(), key or b"", value or b""]
    for name, content in headers:
        if name == VALUE_HEADER:
            continue
        if content is None:
            parts.append(f"{name} -1 ".encode())
        else:
            value_bytes = content if type(content) is bytes else _bytes(content)
            parts.append(f"{name} {len(value_bytes)} ".encode())
            parts.append(value_bytes)
        if name == TIME_HEADER:
            parts.append(f"@{timestamp_ms} ".encode())
    return zlib.crc32(b"".join(parts))


def key_name(key: bytes | None) -> str | None:
    """Return the name of a key in tables: its text if it is short UTF-8, otherwise its length and a hash of 64 bits.

    The hash has so many bits because two keys with one name would be a false `order-violation`.
    """
    if key is None:
        return None
    return _cached_name(key) if len(key) <= KEY_LENGTH else _name_key(key)


def _name_key(key: bytes) -> str:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    if (text or not key) and len(text) <= KEY_LENGTH and not text.startswith("#"):
        return text
    return f"#{len(key)}-{blake2b(key, digest_size=8).hexdigest()}"


_cached_name = lru_cache(maxsize=10_000)(_name_key)
"""For short keys, which repeat."""


def header(headers: Headers | None, name: str) -> str | None:
    """Return the value of the first header with this name; None: there is none."""
    for header_name, content in headers or ():
        if header_name == name and content is not None:
            return _bytes(content).decode(errors="replace")
    return None


def fencepost_headers(headers: Headers) -> tuple[str | None, str | None, str | None]:
    """Return Fencepost's headers of a record: attempt name, output name and inputs. A missing header is None."""
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


def parse_sources(text: str | None) -> list[RecordPosition]:
    """Return the inputs in the header of a record. Inputs that cannot be parsed are left out."""
    positions: list[RecordPosition] = []
    for part in (text or "").split(","):
        topic, _, offset = part.rpartition("/")
        topic, _, partition = topic.rpartition("/")
        if topic and _is_count(partition, _PARTITION_DIGITS) and _is_count(offset, _MOST_DIGITS):
            positions.append((topic, int(partition), int(offset)))
    return positions


def parse_single_source(text: str) -> tuple[str, int] | None:
    """Return partition name and offset if the header has exactly one input, else None.

    This function takes half the time of `parse_sources`. It does not check that the partition name is valid.
    """
    partition, _, offset = text.rpartition("/")
    return (partition, int(offset)) if _is_count(offset, _MOST_DIGITS) and "," not in partition else None


def _is_count(text: str, most: int) -> bool:
    """Return whether the text is a non-negative number of at most `most` digits."""
    return text.isascii() and text.isdecimal() and len(text) <= most


def partition_key(topic: str, partition: int) -> str:
    """Return the name of a partition in journals."""
    return f"{topic}/{partition}"


def split_partition(key: str) -> tuple[str, int]:
    """The inverse of `partition_key`."""
    topic, _, partition = key.rpartition("/")
    return topic, int(partition)


def unplanned(topic: str, partition: int) -> int:
    """Return a negative `tp` for a partition that is not in the plan.

    It is a hash, so all processes compute the same number without agreeing on it. Different partitions have different
    numbers, so that inputs of two partitions are not taken for the same input. The table `partitions` has no row for
    it.
    """
    return -2 - crc32(f"{topic}/{partition}".encode()) % _HASHES


class PartitionIds:
    """Numbers partitions from 0: first the partitions of the plan, then each other partition at its first `id` call.

    A partition that a topic of the plan got during the run has a number above those of all planned partitions.

    Args:
        planned: The number of partitions of each topic or table, in the order of the plan.
    """

    def __init__(self, planned: Mapping[str, int] | None = None) -> None:
        self._ids: dict[tuple[str, int], int] = {}
        self._next = 0
        self._planned = {
            topic: (index, count) for index, (topic, count) in enumerate((planned or {}).items())
        }
        for topic, (_, count) in self._planned.items():
            for partition in range(count):
                self.id(topic, partition)

    def id(self, topic: str, partition: int) -> int:
        """Return the number of a partition. Assign the next number if it has none."""
        known = self._ids.get((topic, partition))
        if known is None:
            known = self._added(topic, partition)
            if known is None:
                known = self._next
                self._next += 1
            self._ids[topic, partition] = known
        return known

    def planned(self, topic: str, partition: int) -> int:
        """Return the number of a partition of a topic of the plan, or the negative number of `unplanned`."""
        known = self._ids.get((topic, partition))
        if known is None:
            known = self._added(topic, partition)
        return unplanned(topic, partition) if known is None else known

    def _added(self, topic: str, partition: int) -> int | None:
        """Return the number of a partition that a topic of the plan got later. None: the topic is not in the plan."""
        index, count = self._planned.get(topic, (0, 0))
        if not count <= partition < _MOST_PARTITIONS or topic not in self._planned:
            return None
        return _FIRST_ADDED + (partition - count) * len(self._planned) + index

    def __iter__(self) -> Iterator[tuple[int, str, int]]:
        """Yield number, topic and partition, ordered by number."""
        for (topic, partition), tp in sorted(self._ids.items(), key=lambda item: item[1]):
            yield tp, topic, partition

    def __len__(self) -> int:
        return len(self._ids)
