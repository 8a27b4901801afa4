"""The tables of an external history, which the checkers of external histories read.

Keys and values are numbers in these tables. An integer from -2^61 to 2^61 is its own number. Any other value gets a
number from 2^62 upwards, which is a hash of its canonical text. `NAMES` has the text of each such number.

    1  {"index":0,"process":0,"type":"invoke","f":"txn","value":[["send","x",1],["poll"]]}
    2  {"index":1,"process":0,"type":"ok","f":"txn","value":[["send","x",[0,1]],["poll",{"y":[[7,9]]}]]}

These two lines become one row of OPS (op 2, invoked at line 1), two rows of MICRO (one sent, one polled), and two rows
of NAMES.
"""

import pyarrow as pa

_i32, _i64, _str = pa.int32(), pa.int64(), pa.string()

OWN_NAME_LIMIT = 1 << 61
NAMES_FROM = 1 << 62

RECORD = pa.struct([("key", _i64), ("value", _i64), ("offset", _i64)])
"""A record that was sent or polled. Its `offset` is null if it is not known."""

EVENTS = pa.schema(
    [
        ("line", _i64),  # counted from 0 within the block
        ("index", _i64),  # from the event; null: it has none
        ("time", _i64),  # nanoseconds; null: the event has none
        ("process", _i64),  # null: not a numbered process (the nemesis), which is not checked
        ("type", _str),  # invoke, ok, fail, info
        ("f", _str),  # send, poll, txn, assign, subscribe, crash, or another kind, which is not checked
        ("sends", pa.list_(RECORD)),  # in the order of the micro-operations
        ("polls", pa.list_(RECORD)),  # in the order in which they were polled
        ("keys", pa.list_(_i64)),  # of assign and subscribe
        ("rebalanced", pa.list_(_i64)),  # keys that the operation's rebalance-log names
        ("isolation", _str),  # null: read_committed
        ("names", pa.list_(pa.struct([("id", _i64), ("text", _str)]))),
        ("error", _str),  # why the line cannot be read; then all columns but `line` are null
    ]
)
"""One row for each line that is not blank."""

SENDING, POLLING = ("txn", "send"), ("txn", "poll")
EFFECTIVE = ("txn", "send", "poll")
KNOWN = (*EFFECTIVE, "assign", "subscribe", "crash", "debug-topic-partitions")
"""The kinds of operations (`f`). EFFECTIVE kinds have records. Kinds that are not KNOWN are ignored."""
OUTCOMES = ("ok", "info", "fail", "open")
OK, INFO, FAIL, OPEN = range(4)

OPS = pa.schema(
    [
        ("run", _i64),
        ("op", _i64),  # the line of its completion, from 1; of its invocation if it never completed
        ("process", _i64),
        ("f", _str),
        ("outcome", pa.int8()),  # an index into OUTCOMES; open: it never completed
        ("invoked", _i64),  # the line of its invocation
        ("invoke_ns", _i64),
        ("complete_ns", _i64),
        ("isolation", _str),
        ("keys", pa.list_(_i64)),
        ("rebalanced", pa.list_(_i64)),
    ]
)
"""One row for each operation of a numbered process."""

MICRO = pa.schema(
    [
        ("run", _i64),
        ("key", _i64),
        ("value", _i64),
        ("offset", _i64),  # null: not known
        ("op", _i64),
        ("n", _i32),  # index among the sends of the operation, or among its polled records
        ("process", _i64),  # of the operation, as in OPS, so that no check has to join the tables
        ("polled", pa.bool_()),  # true: the record was polled; false: it was sent
        ("outcome", pa.int8()),  # of the operation: an index into OUTCOMES
    ]
)
"""One row for each micro-operation, which is a record that was sent or polled.

The rows come from the completions of `send`, `poll` and `txn`. If an operation never completed, or its completion has
no sends, the sends come from its invocation.
"""

NAMES = pa.schema([("run", _i64), ("id", _i64), ("text", _str)])
"""The canonical text (JSON, keys sorted) of each key and value that is not its own number."""

TABLES: dict[str, pa.Schema] = {"ops": OPS, "micro": MICRO, "names": NAMES}
