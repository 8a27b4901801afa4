"""The partitioners of Kafka's clients: which partition each chooses for a key."""

from collections.abc import Callable, Mapping
from zlib import crc32

_SEED, _M = 0x9747B28C, 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Return Kafka's 32-bit murmur2 hash (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    value = _SEED ^ len(key)
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        part = int.from_bytes(key[start : start + 4], "little") * _M & _MASK
        part = (part ^ part >> 24) * _M & _MASK
        value = value * _M & _MASK ^ part
    if rest := key[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def fnv1a(key: bytes) -> int:
    """Return the 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in key:
        value = (value ^ byte) * 0x01000193 & _MASK
    return value


def _by_sarama(key: bytes, partitions: int) -> int:
    """Sarama takes the hash as a signed number, and the absolute value of the remainder."""
    value = fnv1a(key)
    signed = value - (1 << 32) if value >> 31 else value
    return abs(signed) % partitions


PARTITIONERS: Mapping[str, tuple[str, Callable[[bytes, int], int]]] = {
    "murmur2": ("Java clients", lambda key, partitions: (murmur2(key) & 0x7FFFFFFF) % partitions),
    "CRC32": ("librdkafka", lambda key, partitions: crc32(key) % partitions),
    "FNV-1a": ("sarama", _by_sarama),
}
"""By name: the clients whose default it is, and the function from a key and the number of partitions to a partition."""
