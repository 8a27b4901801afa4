"""Which partition of an internal topic a transactional id or a group belongs to, as Kafka computes it."""


def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 code units, a signed number of 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """`Utils.abs(key.hashCode()) % partitions`, where the smallest number's absolute value is 0."""
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions
