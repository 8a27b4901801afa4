"""Decode the records of Kafka's internal topics, field by field.

Integers are big-endian. The length of a string or an array is in front of it, as an integer of a fixed size. In
*flexible* versions of a message, an unsigned varint with the value length + 1 is in front (0: null), and each structure
ends with tagged fields. Reference: Kafka's protocol guide, and KIP-482.

In `__consumer_offsets`, group metadata and the records of newer group protocols have other key versions. They are
skipped. Reference: Kafka's message definitions OffsetCommitKey (versions 0 and 1) and OffsetCommitValue (versions 0 to
4; 4 is flexible).

In `__transaction_state`, a key has the transactional id. A value has the whole state after a change. Reference: Kafka's
message definitions TransactionLogKey (version 0) and TransactionLogValue (versions 0 and 1; 1 is flexible).
"""

import struct
from collections.abc import Callable
from typing import NamedTuple, TypeVar

T = TypeVar("T")
_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{code}") for code in "bhiq")
STATES = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
CLIENT_VERSION = 2
"""The tag of `ClientTransactionVersion`. Kafka leaves the field out if it is 0."""
TOMBSTONE = "Tombstone"
"""The state of a transactional id that the coordinator has removed. Its record has no value."""


class UndecodableField(Exception):
    """The bytes do not have the expected format. The message says what was expected."""


class FieldReader:
    """Reads a message field by field."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.flexible = False  # True: strings, arrays and structures have the form of flexible versions

    def int8(self) -> int:
        """Read a signed 8-bit integer."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Read a signed 16-bit integer."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Read a signed 32-bit integer."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Read a signed 64-bit integer."""
        return self._number(_INT64)

    def string(self) -> str | None:
        """Read a UTF-8 string. None if it is null."""
        length = self._varint() - 1 if self.flexible else self.int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise UndecodableField(f"a string that is not UTF-8: {error}") from error

    def array(self, item: Callable[[], T]) -> list[T]:
        """Read an array with the function `item` for each element. Null is read as an empty list."""
        length = self._varint() - 1 if self.flexible else self.int32()
        if length > len(self._data):  # each item takes at least one byte
            raise UndecodableField(f"an array of {length} items in {len(self._data)} bytes")
        return [item() for _ in range(length)]

    def end_structure(self) -> dict[int, bytes]:
        """Read the tagged fields at the end of a structure. Empty if the version is not flexible."""
        if not self.flexible:
            return {}
        return {self._varint(): self._take(self._varint()) for _ in range(self._varint())}

    def _number(self, form: struct.Struct) -> int:
        number: int = form.unpack(self._take(form.size))[0]
        return number

    def _varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise UndecodableField(f"the message ends after {len(self._data)} bytes, but {end} were expected")
        field = self._data[self._position : end]
        self._position = end
        return field


class OffsetCommit(NamedTuple):
    """A group's committed offset in one partition, or its removal."""

    group: str
    topic: str
    partition: int
    committed: int | None = None  # None: a tombstone
    metadata: str | None = None
    timestamp_ms: int | None = None


def decode_commit(key: bytes | None, value: bytes | None) -> OffsetCommit | None:
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


class TransactionState(NamedTuple):
    """The state of a transactional id after one change, as its coordinator wrote it."""

    transactional_id: str
    state: str
    producer_id: int | None = None  # this and all fields below are None or empty for a tombstone
    epoch: int | None = None
    timeout_ms: int | None = None
    partitions: tuple[tuple[str, int], ...] = ()  # the partitions in the transaction that have no marker yet
    start_ms: int | None = None  # None: no transaction has begun
    update_ms: int | None = None
    # The transaction version of the client. None: this version of the value has no such field.
    client_version: int | None = None


def decode_state(key: bytes | None, value: bytes | None) -> TransactionState | None:
    """Decode a record. None if its key version is not known. Raises `UndecodableField`."""
    if key is None:
        raise UndecodableField("a record of the transaction log without a key")
    fields = FieldReader(key)
    if fields.int16() != 0:
        return None
    transactional_id = fields.string() or ""
    return TransactionState(transactional_id, TOMBSTONE) if value is None else _state(transactional_id, value)


def _state(transactional_id: str, value: bytes) -> TransactionState:
    fields = FieldReader(value)
    version = fields.int16()
    if version not in {0, 1}:
        raise UndecodableField(f"version {version} of the transaction log's values is not known")
    fields.flexible = version >= 1
    producer_id, epoch, timeout_ms, status = fields.int64(), fields.int16(), fields.int32(), fields.int8()
    if status not in STATES:
        raise UndecodableField(f"{status} is no state of a transaction")

    def topic() -> list[tuple[str, int]]:
        name = fields.string() or ""
        numbers = fields.array(fields.int32)
        fields.end_structure()
        return [(name, number) for number in numbers]

    topics = fields.array(topic)
    update_ms, start_ms = fields.int64(), fields.int64()
    tagged = fields.end_structure()
    return TransactionState(
        transactional_id,
        STATES[status],
        producer_id,
        epoch,
        timeout_ms,
        tuple(tp for partitions in topics for tp in partitions),
        None if start_ms < 0 else start_ms,
        update_ms,
        int.from_bytes(tagged.get(CLIENT_VERSION, b""), signed=True) if fields.flexible else None,
    )
