"""The tables of a store: what the three witnesses said, one Parquet file each.

Every table carries `run`, so that one Spark job can check one run or a thousand. Partitions are
dense integers within a run (`tp`); the table `partitions` has their names. Operations are dense
integers within a run (`op`).

`history/` holds what the clients and the consumers said, `log/` what the brokers stored.
"""

import pyarrow as pa

_i32, _i64, _str, _bool = pa.int32(), pa.int64(), pa.string(), pa.bool_()
_inputs = pa.list_(pa.struct([("tp", _i32), ("offset", _i64)]))

PARTITIONS = pa.schema(
    [
        ("run", _i64),
        ("tp", _i32),
        ("topic", _str),
        ("partition", _i32),
        ("internal", _bool),  # __consumer_offsets, __transaction_state
        ("compacted", _bool),  # absence proves nothing here
    ]
)
"""Every partition that any table names."""

STAGES = pa.schema(
    [
        ("run", _i64),
        ("stage", _str),
        ("group", _str),
        ("in_topic", _str),
        ("promised", _str),  # the isolation that the workload promises for this stage's consumer
        ("ordered", _bool),  # promised too: outputs of one key keep the order of their inputs' partition
    ]
)
"""The consume-transform-produce loops of the workload."""

JOURNALS = pa.schema(
    [
        ("run", _i64),
        ("journal", _str),  # e.g. shop-1.0: stage, slot, incarnation
        ("role", _str),  # harness.history.Role
        ("stage", _str),  # null for a feeder, an observer, a final reader
        ("pid", _i32),
        ("lines", _i64),
        ("torn_lines", _i64),  # a last line without its end: the process was killed while writing
        ("missing_lines", _i64),  # gaps in the numbering of the lines: evidence is gone
        ("ops", _i64),
        ("ended", _bool),  # the process said that it had ended, and was not killed
    ]
)
"""One row for each process that recorded anything."""

OPS = pa.schema(
    [
        ("run", _i64),
        ("op", _i64),
        ("name", _str),  # journal:number, as the offset metadata and the values have it
        ("journal", _str),
        ("process", _i64),  # a new one after every info, as Jepsen does
        ("stage", _str),
        ("group", _str),  # null unless it commits offsets
        ("transactional_id", _str),  # null unless transactional
        ("f", _str),  # txn, send, poll, init (InitProducerId), commit-offsets (outside a transaction)
        ("outcome", _str),  # harness.history.Outcome; no completion is info
        ("asked", _str),  # commit or abort: how the worker meant to end it; null if it got not so far
        ("call_ns", _i64),
        ("commit_ns", _i64),  # when the commit was invoked; null: it never was
        ("return_ns", _i64),  # null: no completion
        ("error", _str),
        ("fenced", _bool),
        ("line", _i64),  # of the invocation in the journal, from 1
        ("end_line", _i64),  # of the completion; null: none
    ]
)
"""What each process tried, and what it was told."""

SENDS = pa.schema(
    [
        ("run", _i64),
        ("op", _i64),
        ("n", _i32),  # position in its operation
        ("value", _str),
        ("topic", _str),
        ("tp", _i32),  # null: not acknowledged, so nobody knows
        ("offset", _i64),  # null: likewise, or acknowledged without one
        ("acked", _bool),
        ("slot", _str),  # null for the feeder
        ("inputs", _inputs),  # empty for the feeder
        ("digest", _i64),
    ]
)
"""Every attempt to send. `digest` is of key, value and headers without the value's name."""

CLAIMS = pa.schema(
    [
        ("run", _i64),
        ("op", _i64),
        ("group", _str),
        ("tp", _i32),
        ("first", _i64),  # the first input of the operation, by offset
        ("next", _i64),  # the offset to commit: one above the last input
    ]
)
"""The input ranges whose offsets an operation meant to commit."""

POLLS = pa.schema(
    [
        ("run", _i64),
        ("op", _i64),
        ("n", _i32),  # order of delivery in its operation
        ("tp", _i32),
        ("offset", _i64),
        ("value", _str),  # null: the record bears no name
        ("role", _str),
        ("promised", _str),  # by which the reader is judged
        ("return_ns", _i64),
    ]
)
"""Every delivery: to workers, to observers, and to the final read-committed reader."""

RECORDS = pa.schema(
    [
        ("run", _i64),
        ("tp", _i32),
        ("offset", _i64),
        ("value", _str),
        ("slot", _str),
        ("inputs", _inputs),
        ("digest", _i64),
        ("timestamp_ms", _i64),
        ("sentinel", _bool),
        ("key", _str),  # its name: see harness.record.naming.key_name; null: it has no key
        ("state", _i64),  # what an aggregate's record says of its key; null: it is none
    ]
)
"""Every data record that stood in a topic of the run at the end (final read-uncommitted reader)."""

ENDS = pa.schema(
    [
        ("run", _i64),
        ("journal", _str),
        ("isolation", _str),
        ("tp", _i32),
        ("first", _i64),  # where the log began, when the reader had done
        ("next", _i64),  # one above the last record read; 0 if none was
        ("read", _i64),  # how many records
        ("sentinel_offset", _i64),  # null: it was not written, or not reached
        ("role", _str),  # harness.history.Role: observer; null or final: a final reader
    ]
)
"""How far each reader of the run's own came. A final reader came to the end if it met the sentinel."""

ASSIGNMENTS = pa.schema(
    [
        ("run", _i64),
        ("journal", _str),
        ("process", _i64),
        ("group", _str),
        ("time_ns", _i64),
        ("gained", _bool),  # false: revoked or lost
        ("tp", _i32),
        ("offset", _i64),  # the position from which it started; null when revoked
    ]
)
"""Who consumed which partition, and from where."""

EXPECTED = pa.schema(
    [
        ("run", _i64),
        ("stage", _str),
        ("group", _str),
        ("tp", _i32),  # of the input
        ("offset", _i64),
        ("slot", _str),
        ("topic", _str),  # where the output must stand
        ("digest", _i64),  # null: the workload does not say what it holds
        ("key", _str),  # of an aggregate: the key of `topic` to which the input adds
        ("adds", _i64),  # null: the row is of an output; else it has no slot and no digest
    ]
)
"""What each record of an input topic must lead to, if it is visible: one row per output, or per sum."""

BATCHES = pa.schema(
    [
        ("run", _i64),
        ("broker", _i32),
        ("leader", _bool),  # this replica led the partition when the logs were taken
        ("tp", _i32),
        ("base_offset", _i64),
        ("last_offset", _i64),
        ("count", _i32),
        ("producer_id", _i64),  # -1: none
        ("epoch", _i32),
        ("base_sequence", _i32),
        ("transactional", _bool),
        ("control", _bool),
        ("marker", _str),  # commit or abort; null for data
        ("coordinator_epoch", _i32),
        ("leader_epoch", _i32),
        ("max_timestamp_ms", _i64),
        ("crc", _i64),
    ]
)
"""The header of each batch of each replica, and the type of each marker."""

REPLICAS = pa.schema(
    [
        ("run", _i64),
        ("broker", _i32),
        ("leader", _bool),
        ("tp", _i32),
        ("topic_id", _str),
        ("log_start", _i64),
        ("log_end", _i64),
        ("high_watermark", _i64),
        ("damaged", _str),  # null, or what could not be read
    ]
)
"""What each broker holds of each partition."""

TRANSACTIONS = pa.schema(
    [
        ("run", _i64),
        ("log_tp", _i32),
        ("log_offset", _i64),
        ("transactional_id", _str),
        ("producer_id", _i64),
        ("epoch", _i32),
        ("state", _str),  # Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead
        ("tps", pa.list_(_i32)),
        ("timeout_ms", _i32),
        ("start_ms", _i64),
        ("update_ms", _i64),
    ]
)
"""`__transaction_state`, record by record, from the leader's replica."""

OFFSETS = pa.schema(
    [
        ("run", _i64),
        ("log_tp", _i32),
        ("log_offset", _i64),
        ("group", _str),
        ("tp", _i32),
        ("committed", _i64),  # null: a tombstone
        ("metadata", _str),
        ("op", _i64),  # the operation that the metadata names; null: none
        ("producer_id", _i64),  # -1: outside a transaction
        ("epoch", _i32),
        ("transactional", _bool),
        ("timestamp_ms", _i64),
    ]
)
"""The offset commits in `__consumer_offsets`, record by record, from the leader's replica."""

HISTORY: dict[str, pa.Schema] = {
    "partitions": PARTITIONS,
    "stages": STAGES,
    "journals": JOURNALS,
    "ops": OPS,
    "sends": SENDS,
    "claims": CLAIMS,
    "polls": POLLS,
    "records": RECORDS,
    "ends": ENDS,
    "assignments": ASSIGNMENTS,
    "expected": EXPECTED,
}
LOG: dict[str, pa.Schema] = {
    "batches": BATCHES,
    "replicas": REPLICAS,
    "transactions": TRANSACTIONS,
    "offsets": OFFSETS,
}

LATER: dict[str, frozenset[str]] = {
    "stages": frozenset({"ordered"}),
    "records": frozenset({"key", "state"}),
    "ends": frozenset({"role"}),
    "expected": frozenset({"key", "adds"}),
}
"""Columns that stores of earlier versions lack: they are read as null."""


def unfit(table: str, found: pa.Schema) -> str | None:
    """The first column by which a file is not the table that it should be; None: it is."""
    wanted = (HISTORY | LOG)[table]
    for column in wanted:
        if column.name not in found.names:
            if column.name not in LATER.get(table, ()):
                return str(column.name)
        elif found.field(column.name).type != column.type:
            return str(column.name)
    return next((name for name in found.names if name not in wanted.names), None)
