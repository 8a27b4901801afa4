"""The tables in `log/`: the contents of the broker logs. See `harness.record.schema`."""

import pyarrow as pa

from harness.record.columns import RUN, column, table

_i32, _i64, _str, _bool = pa.int32(), pa.int64(), pa.string(), pa.bool_()

BATCHES = table(
    "One row for each batch of each replica, with its header; for a marker, also its type.",
    RUN,
    column("broker", _i32, "the broker that holds the replica"),
    column("leader", _bool, "whether the broker led the partition when the logs were read"),
    column("tp", _i32, "the partition"),
    column("base_offset", _i64, "the offset of the first record"),
    column("last_offset", _i64, "the offset of the last record"),
    column("count", _i32, "the number of records"),
    column("producer_id", _i64, "the producer id; -1: the producer has none"),
    column("epoch", _i32, "the producer epoch; -1: the producer has none"),
    column(
        "base_sequence",
        _i32,
        "the sequence number of the first record; -1: it has none, or the batch is a marker",
    ),
    column("transactional", _bool, "whether the batch is part of a transaction"),
    column("control", _bool, "whether the batch is a marker"),
    column("marker", _str, "commit or abort", null="the batch is not a marker"),
    column(
        "coordinator_epoch",
        _i32,
        "the epoch of the coordinator that wrote the marker",
        null="the batch is not a marker",
    ),
    column("leader_epoch", _i32, "the epoch of the leader that wrote the batch"),
    column("max_timestamp_ms", _i64, "the latest time stamp of its records"),
    column("crc", _i64, "the checksum in the header"),
)

REPLICAS = table(
    "One row for each replica that a broker holds.",
    RUN,
    column("broker", _i32, "the broker that holds the replica"),
    column("leader", _bool, "whether the broker led the partition when the logs were read"),
    column("tp", _i32, "the partition"),
    column("topic_id", _str, "the topic's id", null="the data folder does not contain it"),
    column("log_start", _i64, "the first offset in the log"),
    column("log_end", _i64, "the last offset in the log plus 1"),
    column(
        "high_watermark",
        _i64,
        "the high watermark in the broker's last checkpoint",
        null="the broker has written no checkpoint",
    ),
    column("damaged", _str, "which part of the log could not be read", null="the whole log was read"),
)

TRANSACTIONS = table(
    "One row for each record of `__transaction_state`, from the replica of the leader.",
    RUN,
    column("log_tp", _i32, "the partition of `__transaction_state`"),
    column("log_offset", _i64, "the offset of the record"),
    column("transactional_id", _str, "the transactional id"),
    column("producer_id", _i64, "its producer id", null="the record is a tombstone"),
    column("epoch", _i32, "its epoch", null="the record is a tombstone"),
    column(
        "state",
        _str,
        "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort or Dead",
        null="the record is a tombstone",
    ),
    column("tps", pa.list_(_i32), "the partitions of the transaction", null="the record is a tombstone"),
    column("timeout_ms", _i32, "the transaction time-out", null="the record is a tombstone"),
    column(
        "start_ms",
        _i64,
        "when the transaction began, by the coordinator's clock",
        null="no transaction has begun, or the record is a tombstone",
    ),
    column(
        "update_ms",
        _i64,
        "when the coordinator decided on this state; for a Complete state, before the markers were written",
        null="the record is a tombstone",
    ),
    column(
        "client_version",
        _i32,
        "the transaction version of the client",
        null="the record is a tombstone or does not contain it",
    ),
)

OFFSETS = table(
    "One row for each offset commit in `__consumer_offsets`, from the replica of the leader.",
    RUN,
    column("log_tp", _i32, "the partition of `__consumer_offsets`"),
    column("log_offset", _i64, "the offset of the record"),
    column("group", _str, "the group that committed"),
    column("tp", _i32, "the partition of the committed offset"),
    column("committed", _i64, "the committed offset", null="the record is a tombstone"),
    column("metadata", _str, "the metadata of the commit", null="the record is a tombstone"),
    column("op", _i64, "the operation in the metadata", null="the metadata has no operation"),
    column("producer_id", _i64, "the producer id; -1: committed outside a transaction"),
    column("epoch", _i32, "the producer epoch; -1: committed outside a transaction"),
    column("transactional", _bool, "whether the commit is part of a transaction"),
    column("timestamp_ms", _i64, "the time stamp of the record"),
)

LOG: dict[str, pa.Schema] = {
    "batches": BATCHES,
    "replicas": REPLICAS,
    "transactions": TRANSACTIONS,
    "offsets": OFFSETS,
}
