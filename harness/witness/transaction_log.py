"""Decode the records of `__transaction_state`, in which coordinators write the states of transactions.

A key has the transactional id. A value has the whole state after a change. Reference: Kafka's message
definitions TransactionLogKey (version 0) and TransactionLogValue (versions 0 and 1; 1 is flexible).
"""

from typing import NamedTuple

from harness.witness.fields import FieldReader, UndecodableField

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


def decode(key: bytes | None, value: bytes | None) -> TransactionState | None:
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
