"""The tables of a store: what the three witnesses said, one Parquet file each.

Every table carries `run`, so that one Spark job can check one run or a thousand. Partitions are
dense integers within a run (`tp`); the table `partitions` has their names. Operations are dense
integers within a run (`op`).

`history/` holds what the clients and the consumers said, `log/` what the brokers stored. Each column says what it
means, and whether and why it may be null: docs/tables.md is made of that (`harness.record.page`).
"""

import pyarrow as pa

from harness.record.columns import RUN, column, table
from harness.record.log_schema import LOG

__all__ = ["HISTORY", "LOG", "find_mismatch"]

_i32, _i64, _str, _bool = pa.int32(), pa.int64(), pa.string(), pa.bool_()
_inputs = pa.list_(pa.struct([("tp", _i32), ("offset", _i64)]))

PARTITIONS = table(
    "Every partition that any table names.",
    RUN,
    column("tp", _i32, "its number within the run"),
    column("topic", _str, "its topic"),
    column("partition", _i32, "its number within the topic"),
    column("internal", _bool, "whether it is Kafka's own, or of a topic that a program made itself"),
    column("compacted", _bool, "whether its topic is compacted: then absence proves nothing"),
)

STAGES = table(
    "The consume-transform-produce loops of the pipeline, a row for each topic that one reads.",
    RUN,
    column("stage", _str, "its name"),
    column(
        "group",
        _str,
        "the consumer group for which it commits its offsets",
        null="it keeps them in a place of its own",
    ),
    column("in_topic", _str, "a topic that it reads"),
    column("promised", _str, "the isolation that the pipeline promises for its consumer"),
    column("ordered", _bool, "whether outputs of one key keep their inputs' order"),
    column("positions", _str, "how it knows what is done: group, each or elsewhere", null="as `group` says"),
    column("guarantee", _str, "what it promises of each input", null="what the pipeline does"),
    column("journaled", _bool, "whether its workers keep journals"),
)

JOURNALS = table(
    "A row for each process that recorded anything.",
    RUN,
    column("journal", _str, "its name: stage and output_name, and which incarnation (`shop-1.0`)"),
    column("role", _str, "feeder, worker, observer or final"),
    column("stage", _str, "its stage", null="it is no worker"),
    column("pid", _i32, "of the process", null="the process never reported it"),
    column("lines", _i64, "lines in it"),
    column("torn_lines", _i64, "last lines without their end: the process was killed while it wrote"),
    column("missing_lines", _i64, "gaps in the numbering of its lines: evidence is gone"),
    column("ops", _i64, "operations in it"),
    column("ended", _bool, "whether the process said that it had ended"),
    column("sends", _i64, "rows of `sends` that were made of it"),
    column("claims", _i64, "rows of `claims` that were made of it"),
)

OPS = table(
    "What each process tried, and what it was told.",
    RUN,
    column("op", _i64, "its number within the run"),
    column("name", _str, "journal and number, as offset metadata and values have it"),
    column("journal", _str, "where it stands"),
    column("process", _i64, "a logical process: a new one after every info, as in Jepsen"),
    column("stage", _str, "of its process", null="it is no worker's"),
    column("group", _str, "the group whose inputs it takes", null="it takes none"),
    column("transactional_id", _str, "its transactional id", null="it is no transaction"),
    column("f", _str, "txn, send, poll, init (InitProducerId) or commit-offsets (outside a transaction)"),
    column("outcome", _str, "ok, fail or info; without a completion it is info"),
    column("asked", _str, "how its process meant to end it: commit or abort", null="it did not get so far"),
    column("call_ns", _i64, "when it was invoked, from the run's begin"),
    column("commit_ns", _i64, "when the commit was invoked", null="it never was"),
    column("return_ns", _i64, "when it completed", null="it never did"),
    column("error", _str, "what its process was told", null="no error"),
    column("fenced", _bool, "whether that error says that the producer was fenced"),
    column("line", _i64, "of its invocation in the journal, from 1"),
    column("end_line", _i64, "of its completion", null="it has none"),
    column("txn", _i64, "of a poll: the transaction in which it was done", null="it was done in none"),
)

SENDS = table(
    "Every attempt to send.",
    RUN,
    column("op", _i64, "its operation"),
    column("n", _i32, "its place in the operation, from 0"),
    column("value", _str, "the name of this attempt, which stands in the record too"),
    column("topic", _str, "where it was sent"),
    column("tp", _i32, "the partition that it was acknowledged in", null="it was not acknowledged"),
    column("offset", _i64, "the offset that was acknowledged", null="none was"),
    column("acked", _bool, "whether it was acknowledged"),
    column("output_name", _str, "which of its inputs' outputs it is", null="it comes of no input"),
    column("inputs", _inputs, "the inputs that it was made from; empty for the feeder"),
    column("digest", _i64, "a hash of key, value and headers, without the attempt's name"),
)

CLAIMS = table(
    "The ranges of inputs that an operation processed, or whose offsets it committed.",
    RUN,
    column("op", _i64, "the operation"),
    column("group", _str, "whose offsets", null="its process says no stage"),
    column("tp", _i32, "the partition of the inputs"),
    column("first", _i64, "the first input's offset"),
    column("next", _i64, "the offset to commit: one above the last input"),
)

POLLS = table(
    "Every delivery: to workers, to observers, and to the final readers that read committed.",
    RUN,
    column("op", _i64, "the operation that was given it"),
    column("n", _i32, "in which order, from 0"),
    column("tp", _i32, "the record's partition"),
    column("offset", _i64, "its offset"),
    column("value", _str, "the name of the attempt to send it", null="the record bears none"),
    column("role", _str, "who was given it: worker, observer or final"),
    column("promised", _str, "the isolation by which the reader is judged"),
    column("return_ns", _i64, "when the poll returned, from the run's begin"),
)

RECORDS = table(
    "Every data record that stood in a topic of the run at the end, from the final readers that read uncommitted.",
    RUN,
    column("tp", _i32, "its partition"),
    column("offset", _i64, "its offset"),
    column("value", _str, "the name of the attempt to send it", null="it bears none"),
    column("output_name", _str, "which of its inputs' outputs it is", null="it is no output"),
    column(
        "inputs",
        _inputs,
        "the inputs that it names (a `tp` of -1: in a partition that the plan does not name); empty: it names none",
    ),
    column("digest", _i64, "a hash of key, value and headers, without the attempt's name"),
    column("timestamp_ms", _i64, "its own time stamp", null="it has none"),
    column("sentinel", _bool, "whether the run itself wrote it, to mark the end"),
    column("key", _str, "its key's name", null="it has no key"),
    column("state", _i64, "what an aggregate says of its key", null="it is no aggregate's"),
    column(
        "correlation_key",
        _str,
        "by what it is joined to its input",
        null="it names its inputs, or nothing joins it",
    ),
    column(
        "content", _str, "its key and value as text, cut short", null="a program of Fencepost's own wrote it"
    ),
)

ENDS = table(
    "How far each reader of the run's own came. A final reader came to the end if it met the sentinel.",
    RUN,
    column("journal", _str, "who read"),
    column("isolation", _str, "read_committed or read_uncommitted"),
    column("tp", _i32, "what was read"),
    column(
        "first",
        _i64,
        "of a final reader: where the log began after the read; of an observer: the first offset it was given",
    ),
    column("next", _i64, "one above the last record read; 0 if none was"),
    column("read", _i64, "how many records"),
    column("sentinel_offset", _i64, "where the sentinel stood", null="it was not written, or not reached"),
    column("role", _str, "observer or final"),
    column(
        "expected",
        _i64,
        "how many rows of `expected` the reader wrote for the inputs of this partition",
        null="it states no expectation",
    ),
)

ASSIGNMENTS = table(
    "Who consumed which partition, and from where.",
    RUN,
    column("journal", _str, "who"),
    column("process", _i64, "its logical process"),
    column("group", _str, "its group"),
    column("time_ns", _i64, "when, from the run's begin"),
    column("gained", _bool, "whether it was gained; else it was revoked or lost"),
    column("tp", _i32, "the partition"),
    column("offset", _i64, "the position from which it started", null="it was revoked, or nobody said"),
)

EXPECTED = table(
    "What each record of an input topic must lead to, if it is visible: a row for each output, or for each sum.",
    RUN,
    column("stage", _str, "the stage that must make it"),
    column("group", _str, "the stage's group"),
    column("tp", _i32, "the input's partition"),
    column("offset", _i64, "the input's offset"),
    column("output_name", _str, "which of its outputs", null="the row is of a sum"),
    column("topic", _str, "where it must stand"),
    column("digest", _i64, "what it must hold, as a hash", null="nobody says, or the row is of a sum"),
    column("key", _str, "of a sum: the key to which the input adds", null="the row is of an output"),
    column("adds", _i64, "of a sum: how much", null="the row is of an output"),
    column(
        "intermediate_topic",
        _str,
        "the topic whose record, made of the input, it takes",
        null="it takes the input",
    ),
    column("correlation_key", _str, "by what the output is joined to it", null="the output names its inputs"),
    column(
        "content", _str, "what it must hold, as text, cut short", null="a program of Fencepost's own owes it"
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


def find_mismatch(table: str, found: pa.Schema) -> str | None:
    """The first column by which a file is not the table that it should be; None: it is."""
    wanted = (HISTORY | LOG)[table]
    for one in wanted:
        if one.name not in found.names or found.field(one.name).type != one.type:
            return str(one.name)
    return next((name for name in found.names if name not in wanted.names), None)
