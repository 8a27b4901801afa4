"""Decode the offset commits in `__consumer_offsets`.

Group metadata and the records of newer group protocols have other key versions. They are skipped. Reference: Kafka's
message definitions OffsetCommitKey (versions 0 and 1) and OffsetCommitValue (versions 0 to 4; 4 is flexible).
"""

from typing import NamedTuple

from harness.witness.fields import FieldReader, UndecodableField


class OffsetCommit(NamedTuple):
    """A group's committed offset in one partition, or its removal."""

    group: str
    topic: str
    partition: int
    committed: int | None = None  # None: a tombstone
    metadata: str | None = None
    timestamp_ms: int | None = None


def decode(key: bytes | None, value: bytes | None) -> OffsetCommit | None:
    """Decode a record. None if it is not an offset commit. Raises `UndecodableField`."""
    if key is None:
        raise UndecodableField("a record of the offsets log without a key")
    fields = FieldReader(key)
    if fields.int16() not in {0, 1}:
        return None
    group, topic, partition = fields.string() or "", fields.string() or "", fields.int32()
    if value is None:
        return OffsetCommit(group, topic, partition)
    return OffsetCommit(group, topic, partition, *_commit(value))


def _commit(value: bytes) -> tuple[int, str | None, int]:
    fields = FieldReader(value)
    version = fields.int16()
    if version not in range(5):
        raise UndecodableField(f"version {version} of the offsets log's values is not known")
    fields.flexible = version >= 4
    offset = fields.int64()
    if version >= 3:
        fields.int32()  # the leader epoch of the last consumed record
    metadata, timestamp_ms = fields.string(), fields.int64()
    if version == 1:
        fields.int64()  # the expiry time
    fields.end_structure()
    return offset, metadata, timestamp_ms
