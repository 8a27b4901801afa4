"""Convert the fields of a record, as a user's function or file gives them, to what Kafka stores."""

from collections.abc import Mapping

from harness.model.expectation import Headers
from workloads.custom.description import CustomTopic
from workloads.custom.functions import UserError, as_bytes

MOST_MS = 2**63 - 1
TIMESTAMP_TYPE = "message.timestamp.type"


def as_headers(where: str, headers: object) -> Headers:
    """Return headers as pairs, from a mapping or a list of pairs; None: no headers.

    Raises `UserError` with a text that begins with `where`.
    """
    if headers is None:
        return ()
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    wrong_headers = UserError(f"{where}: headers must be a mapping or a list of pairs, not {headers!r}")
    if not isinstance(pairs, list | tuple):
        raise wrong_headers
    try:
        return tuple(
            (_header_name(where, name), as_bytes(content, f"{where}: header {name}"))
            for name, content in pairs
        )
    except (TypeError, ValueError):
        raise wrong_headers from None


def _header_name(where: str, name: object) -> str:
    """Return the name as text. Raises `UserError` if Kafka cannot store it."""
    text = str(name)
    as_bytes(text, f"{where}: the name of a header")
    return text


def as_timestamp_ms(where: str, timestamp_ms: object, settings: CustomTopic | None = None) -> int | None:
    """Return a time stamp; None: the record has none. Raises `UserError` with a text that begins with `where`.

    0 is refused, because librdkafka sends the present time instead.
    """
    if timestamp_ms is None:
        return None
    if not _is_whole(timestamp_ms, 1, MOST_MS):
        raise UserError(
            f"{where}: timestamp_ms must be the milliseconds since 1970, a whole number from 1 on, "
            f"not {timestamp_ms!r}"
        )
    if settings is not None and settings.config.get(TIMESTAMP_TYPE) == "LogAppendTime":
        raise UserError(
            f"{where}: timestamp_ms has no effect, because the topic has {TIMESTAMP_TYPE} = LogAppendTime: "
            "remove one of the two"
        )
    assert isinstance(timestamp_ms, int)
    return timestamp_ms


def as_partition(where: str, partition: object, partitions: int | None = None) -> int | None:
    """Return a partition; None: the record has none. Raises `UserError` with a text that begins with `where`.

    Args:
        where: names the record.
        partition: what the user gave.
        partitions: the number of partitions of the topic; None: it is not known.
    """
    if partition is None:
        return None
    if not _is_whole(partition, 0, MOST_MS if partitions is None else partitions - 1):
        last = "" if partitions is None else f" to {partitions - 1}"
        because = "" if partitions is None else f", because the topic has {partitions} partitions"
        raise UserError(f"{where}: partition must be a whole number from 0{last}{because}, not {partition!r}")
    assert isinstance(partition, int)
    return partition


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
