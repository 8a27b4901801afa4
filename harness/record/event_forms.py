"""Checks the fields of journal events. A value that Fencepost's processes never write is not an event."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

MOST = 1 << 62
"""Above every number in a journal."""
_MOST_SMALL = 1 << 31
_TEXT_OR_NONE = (str, type(None))


def is_number(value: object, least: int = 0) -> bool:
    """Return whether the value is an integer that is at least `least` and below `MOST`."""
    return type(value) is int and least <= value < MOST


def _small(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_SMALL


@lru_cache(maxsize=10_000)
def _names_partition(value: str) -> bool:
    topic, _, number = value.rpartition("/")
    return bool(topic) and number.isascii() and number.isdecimal() and len(number) < 10


def is_partition_name(value: object) -> bool:
    """Return whether the value is the name of a partition: `topic/number`."""
    return type(value) is str and _names_partition(value)


def _each(fits: Callable[[Any], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _by_partition(fits: Callable[[Any], bool]) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, dict) and all(map(is_partition_name, value)) and all(map(fits, value.values()))
    )


# A long run has millions of these values. Loops with few calls check them faster.


def _sends(value: object) -> bool:
    """For each send: topic, output name, digest; then a partition and an offset for each input."""
    if type(value) is not list:
        return False
    for send in value:
        if type(send) is not list or len(send) < 3 or len(send) % 2 == 0:
            return False
        if type(send[0]) is not str or type(send[1]) not in _TEXT_OR_NONE or not is_number(send[2]):
            return False
        for at in range(3, len(send), 2):
            offset = send[at + 1]
            if not is_partition_name(send[at]) or type(offset) is not int or not 0 <= offset < MOST:
                return False
    return True


def _acks(value: object) -> bool:
    """For each send: its partition (-1: never sent) and its offset, which may be null; or null if no response came."""
    if type(value) is not list:
        return False
    for ack in value:
        if ack is None:
            continue
        if type(ack) is not list or len(ack) != 2:
            return False
        partition, offset = ack
        if type(partition) is not int or not -1 <= partition < _MOST_SMALL:
            return False
        if offset is not None and not is_number(offset):
            return False
    return True


def _records(value: object) -> bool:
    """For each record: its offset, and the name of its attempt, which may be null."""
    if type(value) is not list:
        return False
    for record in value:
        if type(record) is not list or len(record) != 2 or type(record[0]) is not int:
            return False
        if not 0 <= record[0] < MOST or type(record[1]) not in _TEXT_OR_NONE:
            return False
    return True


def _range(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value))


def _text(value: object) -> bool:
    return isinstance(value, str)


FIELD_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("op", "ops", "call", "rows", "crc", "errors", "txn", "at", "since"), is_number),
    "pid": _small,
    "process": lambda value: is_number(value, -1),
    **dict.fromkeys(("journal", "role", "stage", "f", "error", "isolation", "table", "file"), _text),
    **dict.fromkeys(("transactional_id", "asked", "worker", "bootstrap", "target", "evidence"), _text),
    **dict.fromkeys(
        ("abort_error", "retried", "client", "client_version", "library_version", "waits"), _text
    ),
    **dict.fromkeys(("gained", "fenced", "surprise"), lambda value: type(value) is bool),
    **dict.fromkeys(("parameters", "ends"), lambda value: isinstance(value, dict)),
    "sends": _sends,
    "acks": _acks,
    "claims": _by_partition(_range),
    "records": _by_partition(_records),
    "partitions": _each(is_partition_name),
    "micro": _each(lambda value: value is None or is_partition_name(value)),
    "starts": _each(lambda value: value is None or is_number(value)),
}
"""By field name: the check of its value. A null is valid only if it is the default of the field."""
