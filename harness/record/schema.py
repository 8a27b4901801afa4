"""Declares the tables of a run folder. Each table is one Parquet file.

Every table has a column `run`, so that one Spark job can check one run or a thousand. Partitions (`tp`) and operations
(`op`) are numbered from 0 within a run. The table `partitions` has the names of the partitions.

`history/` has the history, and `log/` the contents of the broker logs. Each column is declared with its meaning and the
reason why it may be null. `python -m harness.record.schema FILE` makes docs/tables.md from these declarations.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

MEANING, NULL, ADDED = b"meaning", b"null", b"added"


def column(name: str, kind: pa.DataType, meaning: str, *, null: str = "", added: bool = False) -> pa.Field:
    """Declare a column.

    Args:
        null: What a null means; empty: the column has no nulls.
        added: Tables of earlier versions lack the column. Then each of its cells is null.
    """
    metadata = {MEANING: meaning.encode(), NULL: null.encode()}
    return pa.field(name, kind, metadata=metadata | ({ADDED: b""} if added else {}))


def table(meaning: str, *columns: pa.Field) -> pa.Schema:
    """Declare a table."""
    return pa.schema(columns, metadata={MEANING: meaning.encode()})


def meaning(declared: pa.Field | pa.Schema) -> str:
    """Return the meaning of a column or a table."""
    return str(declared.metadata[MEANING].decode())


def null(declared: pa.Field) -> str:
    """Return what a null in this column means; empty: the column has no nulls."""
    return str(declared.metadata[NULL].decode())


def is_added(declared: pa.Field) -> bool:
    """Return whether tables of earlier versions lack this column."""
    return ADDED in declared.metadata


RUN = column("run", pa.int64(), "the number of the run, the same in all its tables")


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


_inputs = pa.list_(pa.struct([("tp", _i32), ("offset", _i64)]))

PARTITIONS = table(
    "One row for each partition that occurs in a table.",
    RUN,
    column("tp", _i32, "its number within the run"),
    column("topic", _str, "its topic"),
    column("partition", _i32, "its number within the topic"),
    column(
        "internal", _bool, "whether its topic is internal: of Kafka, or created by a custom pipeline itself"
    ),
    column("compacted", _bool, "whether its topic is compacted; a missing record then proves nothing"),
)

STAGES = table(
    "One row for each stage and each topic that it reads.",
    RUN,
    column("stage", _str, "the name of the stage"),
    column(
        "group",
        _str,
        "the consumer group that it commits offsets for",
        null="it stores its positions elsewhere",
    ),
    column("in_topic", _str, "a topic that it reads"),
    column("promised", _str, "the isolation level that the pipeline promises for its consumer"),
    column("ordered", _bool, "whether outputs of one key keep the order of their inputs"),
    column(
        "positions",
        _str,
        "how it tracks which inputs are processed: group, each or elsewhere",
        null="by its group, if it has one",
    ),
    column(
        "guarantee", _str, "the guarantee of the stage for each input", null="the guarantee of the pipeline"
    ),
    column("journaled", _bool, "whether its workers keep journals"),
)

JOURNALS = table(
    "One row for each process that wrote a journal.",
    RUN,
    column(
        "journal",
        _str,
        "its name: the worker and its incarnation (`shop-1.0`), or the name of another process",
    ),
    column("role", _str, "feeder, worker, observer or final"),
    column("stage", _str, "the stage of the worker", null="the process is not a worker"),
    column("pid", _i32, "the process id", null="the journal does not contain it"),
    column("lines", _i64, "the number of lines"),
    column("torn_lines", _i64, "incomplete last lines: the process was killed while it wrote"),
    column("missing_lines", _i64, "lines that are missing or invalid: evidence is lost"),
    column("ops", _i64, "the number of its operations"),
    column("ended", _bool, "whether the process wrote its end event"),
    column("sends", _i64, "the number of rows of `sends` made from it"),
    column("claims", _i64, "the number of rows of `claims` made from it"),
    *(
        column(
            name,
            _i64,
            f"the number of rows of `{name}` made from it",
            null="an earlier version wrote the table",
            added=True,
        )
        for name in ("polls", "assignments")
    ),
)

OPS = table(
    "One row for each operation of a process, with its outcome.",
    RUN,
    column("op", _i64, "its number within the run"),
    column("name", _str, "its journal and its number in the journal, as in the metadata of offset commits"),
    column("journal", _str, "the journal that contains it"),
    column("process", _i64, "the logical process; after every info it has a new number, as in Jepsen"),
    column("stage", _str, "the stage of its worker", null="its process is not a worker"),
    column(
        "group",
        _str,
        "the group whose inputs it processed",
        null="it processed no inputs, or its stage has no group",
    ),
    column("transactional_id", _str, "its transactional id", null="it is not transactional"),
    column("f", _str, "txn, send, poll, init (InitProducerId) or commit-offsets (outside a transaction)"),
    column("outcome", _str, "ok, fail or info; info if it has no completion"),
    column(
        "asked",
        _str,
        "how its process meant to end it: commit or abort",
        null="it is not a transaction, or this is not known",
    ),
    column("call_ns", _i64, "when it was invoked, since the start of the run"),
    column("commit_ns", _i64, "when the commit was invoked", null="it was not invoked"),
    column("return_ns", _i64, "when it completed", null="it did not complete"),
    column("error", _str, "the error that its process got", null="no error"),
    column("fenced", _bool, "whether the error says that the producer was fenced"),
    column("line", _i64, "the line of its invocation in the journal, from 1"),
    column("end_line", _i64, "the line of its completion", null="it has no completion"),
    column(
        "txn",
        _i64,
        "the transaction that contains the poll",
        null="it is not a poll, or is outside a transaction",
    ),
)

SENDS = table(
    "One row for each attempt to send.",
    RUN,
    column("op", _i64, "its operation"),
    column("n", _i32, "its index in the operation, from 0"),
    column("value", _str, "the name of this attempt; the record contains it in a header"),
    column("topic", _str, "the topic that it was sent to"),
    column("tp", _i32, "the partition in the acknowledgement", null="it was not acknowledged"),
    column(
        "offset", _i64, "the offset in the acknowledgement", null="it has no acknowledgement with an offset"
    ),
    column("acked", _bool, "whether it was acknowledged"),
    column("output_name", _str, "its output name: which expected output it is", null="it has no inputs"),
    column("inputs", _inputs, "the inputs that it was made from; empty for the feeder"),
    column("digest", _i64, "a hash of key, value and headers, without the name of the attempt"),
)

CLAIMS = table(
    "One row for each range of inputs that an operation processed, or whose offsets it committed.",
    RUN,
    column("op", _i64, "the operation"),
    column(
        "group",
        _str,
        "the group of the offsets",
        null="the stage of its process is not known or has no group",
    ),
    column("tp", _i32, "the partition of the inputs"),
    column("first", _i64, "the offset of the first input"),
    column("next", _i64, "the offset to commit: the offset of the last input plus 1"),
)

POLLS = table(
    "One row for each record that a worker, an observer or a read-committed final reader received.",
    RUN,
    column("op", _i64, "the poll that returned the record"),
    column("n", _i32, "the index of the record in the poll, from 0"),
    column("tp", _i32, "the partition of the record"),
    column("offset", _i64, "the offset of the record"),
    column("value", _str, "the name of the attempt to send it", null="the record contains no name"),
    column("role", _str, "the role of the reader: worker, observer or final"),
    column("promised", _str, "the isolation level that the reader is checked against"),
    column("return_ns", _i64, "when the poll returned, since the start of the run"),
)

RECORDS = table(
    "One row for each data record in a topic of the run at its end, from the read-uncommitted final readers.",
    RUN,
    column("tp", _i32, "its partition"),
    column("offset", _i64, "its offset"),
    column("value", _str, "the name of the attempt to send it", null="the record contains no name"),
    column("output_name", _str, "its output name: which expected output it is", null="it is not an output"),
    column(
        "inputs",
        _inputs,
        "the inputs in its header; `tp` is negative if the plan does not have the partition; empty: it has none",
    ),
    column("digest", _i64, "a hash of key, value and headers, without the name of the attempt"),
    column("timestamp_ms", _i64, "its time stamp", null="it has none"),
    column("sentinel", _bool, "whether it is a sentinel"),
    column("key", _str, "the name of its key", null="it has no key"),
    column(
        "state", _i64, "of an output of an aggregate: the state of its key", null="it is not such an output"
    ),
    column(
        "correlation_key",
        _str,
        "the correlation key that joins it to its input",
        null="its header has its inputs, or it has no correlation key",
    ),
    column("content", _str, "its key and value as text, truncated", null="a process of Fencepost wrote it"),
    column(
        "size_bytes",
        _i64,
        "the size of its key and value",
        null="it is a row of a database, or an earlier version wrote the table",
        added=True,
    ),
)

ENDS = table(
    "One row for each partition that an observer or a final reader has read, with the end of its read. In a run with "
    "sentinels, a final reader has read to the end if it has read the sentinel.",
    RUN,
    column("journal", _str, "the journal of the reader"),
    column("isolation", _str, "read_committed or read_uncommitted"),
    column("tp", _i32, "the partition"),
    column(
        "first",
        _i64,
        "of a final reader: the start of the log after the read; of an observer: the first offset that it received",
    ),
    column("next", _i64, "the offset of the last record that it read plus 1; 0 if it read none"),
    column("read", _i64, "the number of records that it read"),
    column(
        "sentinel_offset",
        _i64,
        "the offset of the sentinel; without sentinels: the last offset before the end that it read to, -1 if the "
        "partition is empty",
        null="it did not read to the end",
    ),
    column("role", _str, "observer or final"),
    column(
        "expected",
        _i64,
        "the number of rows of `expected` that the reader wrote for the inputs of this partition",
        null="the reader does not write `expected`",
    ),
)

ASSIGNMENTS = table(
    "One row for each partition that a consumer was assigned or lost.",
    RUN,
    column("journal", _str, "the journal of the process"),
    column("process", _i64, "its logical process"),
    column("group", _str, "the group of the consumer"),
    column("time_ns", _i64, "the time, since the start of the run"),
    column("gained", _bool, "whether it was assigned; otherwise it was revoked or lost"),
    column("tp", _i32, "the partition"),
    column(
        "offset",
        _i64,
        "the offset at which the consumer starts to read",
        null="it was revoked or lost, or the offset is not known",
    ),
)

EXPECTED = table(
    "The expected outputs of each record of an input topic: one row for each output or each amount added to a sum. "
    "They are expected only if the record is visible.",
    RUN,
    column("stage", _str, "the stage that must make the output"),
    column("group", _str, "the group of the stage"),
    column("tp", _i32, "the partition of the input"),
    column("offset", _i64, "the offset of the input"),
    column("output_name", _str, "the output name", null="the row is about a sum"),
    column("topic", _str, "the topic of the output"),
    column("digest", _i64, "the digest of the output", null="it is not known, or the row is about a sum"),
    column("key", _str, "of a sum: its key", null="the row is about an output"),
    column("adds", _i64, "of a sum: the amount that the input adds", null="the row is about an output"),
    column(
        "intermediate_topic",
        _str,
        "the topic between two stages: a stage makes its record from the input, and the next makes the output from it",
        null="the output is made from the input itself",
    ),
    column(
        "correlation_key",
        _str,
        "the correlation key that joins the output to the input",
        null="the header of the output has its inputs",
    ),
    column(
        "content", _str, "the expected content as text, truncated", null="the stage belongs to a workload"
    ),
    column(
        "n",
        _i32,
        "its index among the rows of its input, from 0",
        null="an earlier version wrote the table",
        added=True,
    ),
)

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


def find_mismatch(table: str, actual: pa.Schema) -> str | None:
    """Return the first column that is missing, has another type or is not in the table; None: there is none.

    A column that earlier versions did not write may be missing.
    """
    expected = (HISTORY | LOG)[table]
    for field in expected:
        if field.name not in actual.names and is_added(field):
            continue
        if field.name not in actual.names or actual.field(field.name).type != field.type:
            return str(field.name)
    return next((name for name in actual.names if name not in expected.names), None)


HEAD = """# The tables of a stored run

A run folder has one Parquet file for each table. The tables in `history/` are made from the journals, and those in
`log/` from the broker logs. `make docs` makes this page from `harness/record/schema.py` and
`harness/record/schema.py`.

Partitions (`tp`) and operations (`op`) are numbered within a run; the tables `partitions` and `ops` describe them.
Times in nanoseconds (`_ns`) count from the start of the run on its monotonic clock. Times in milliseconds (`_ms`) are
wall-clock times.
"""
FOLDERS = (("history", "The history", HISTORY), ("log", "The broker logs", LOG))


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([HEAD, *_folders()])


def _folders() -> Iterator[str]:
    for folder, heading, tables in FOLDERS:
        yield f"## {heading}: `{folder}/`\n"
        for name, schema in tables.items():
            yield f"### {name}\n\n{meaning(schema)}\n\n| column | type | meaning | null |\n| --- | --- | --- | --- |"
            yield from map(_row, schema)
            yield ""


def _row(column: pa.Field) -> str:
    return f"| `{column.name}` | {_kind(column.type)} | {meaning(column)} | {null(column) or 'never'} |"


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return "(" + ", ".join(f"{field.name} {_kind(field.type)}" for field in fields) + ")"
    return str(kind)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
