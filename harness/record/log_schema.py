"""The tables of a store that stand in `log/`: what the brokers stored. See `harness.record.schema`."""

import pyarrow as pa

from harness.record.columns import RUN, column, table

_i32, _i64, _str, _bool = pa.int32(), pa.int64(), pa.string(), pa.bool_()

BATCHES = table(
    "The header of each batch of each replica, and the type of each marker.",
    RUN,
    column("broker", _i32, "whose replica"),
    column("leader", _bool, "whether it led the partition when the logs were taken"),
    column("tp", _i32, "the partition"),
    column("base_offset", _i64, "of the first record"),
    column("last_offset", _i64, "of the last record"),
    column("count", _i32, "how many records"),
    column("producer_id", _i64, "who wrote it; -1: a producer without an id"),
    column("epoch", _i32, "the producer's epoch; -1: it has none"),
    column("base_sequence", _i32, "the first record's sequence number; -1: it has none, or is a marker"),
    column("transactional", _bool, "whether it is part of a transaction"),
    column("control", _bool, "whether it is a marker"),
    column("marker", _str, "commit or abort", null="it is data"),
    column("coordinator_epoch", _i32, "of a marker", null="it is data"),
    column("leader_epoch", _i32, "of the partition's leader"),
    column("max_timestamp_ms", _i64, "the latest time stamp in it"),
    column("crc", _i64, "the checksum in its header"),
)

REPLICAS = table(
    "What each broker holds of each partition.",
    RUN,
    column("broker", _i32, "whose replica"),
    column("leader", _bool, "whether it led the partition when the logs were taken"),
    column("tp", _i32, "the partition"),
    column("topic_id", _str, "the topic's id", null="the broker's folder does not say"),
    column("log_start", _i64, "the first offset that it holds"),
    column("log_end", _i64, "one above the last offset"),
    column("high_watermark", _i64, "as the broker had last written it down", null="it had not"),
    column("damaged", _str, "what could not be read", null="all could"),
)

TRANSACTIONS = table(
    "`__transaction_state`, record by record, from the leader's replica.",
    RUN,
    column("log_tp", _i32, "the `tp` of a partition of `__transaction_state`"),
    column("log_offset", _i64, "the offset in it"),
    column("transactional_id", _str, "whose state"),
    column("producer_id", _i64, "the producer id that it has", null="a tombstone"),
    column("epoch", _i32, "its epoch", null="a tombstone"),
    column(
        "state",
        _str,
        "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort or Dead",
        null="a tombstone",
    ),
    column("tps", pa.list_(_i32), "the transaction's partitions", null="a tombstone"),
    column("timeout_ms", _i32, "the transaction's time-out", null="a tombstone"),
    column(
        "start_ms",
        _i64,
        "when it began, by the coordinator's clock",
        null="no transaction has begun, or a tombstone",
    ),
    column("update_ms", _i64, "when it was decided; a Complete state before its markers", null="a tombstone"),
    column("client_version", _i32, "the transaction version of its client", null="a tombstone, or not said"),
)

OFFSETS = table(
    "The offset commits in `__consumer_offsets`, record by record, from the leader's replica.",
    RUN,
    column("log_tp", _i32, "the `tp` of a partition of `__consumer_offsets`"),
    column("log_offset", _i64, "the offset in it"),
    column("group", _str, "whose offset"),
    column("tp", _i32, "the partition that the offset is of"),
    column("committed", _i64, "the offset", null="a tombstone"),
    column("metadata", _str, "what was committed with it", null="a tombstone"),
    column("op", _i64, "the operation that the metadata names", null="it names none"),
    column("producer_id", _i64, "who committed it; -1: outside a transaction"),
    column("epoch", _i32, "the producer's epoch; -1: outside a transaction"),
    column("transactional", _bool, "whether it is part of a transaction"),
    column("timestamp_ms", _i64, "the record's time stamp"),
)

LOG: dict[str, pa.Schema] = {
    "batches": BATCHES,
    "replicas": REPLICAS,
    "transactions": TRANSACTIONS,
    "offsets": OFFSETS,
}
