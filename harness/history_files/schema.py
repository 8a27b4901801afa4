"""What an external history becomes: the tables that the client's own checks read.

Keys and values are numbers here. An integer of up to 2^61 in magnitude stands for itself; anything else
is named by a number from 2^62 upwards, a hash of its canonical text, which `NAMES` gives back.

    1  {"index":0,"process":0,"type":"invoke","f":"txn","value":[["send","x",1],["poll"]]}
    2  {"index":1,"process":0,"type":"ok","f":"txn","value":[["send","x",[0,1]],["poll",{"y":[[7,9]]}]]}

is one row of OPS (op 2, invoked at line 1), two of MICRO (one sent, one polled), and two of NAMES.
"""

import pyarrow as pa

_i32, _i64, _str = pa.int32(), pa.int64(), pa.string()

OWN_NAME_LIMIT = 1 << 61
NAMES_FROM = 1 << 62

RECORD = pa.struct([("key", _i64), ("value", _i64), ("offset", _i64)])
"""A record sent or given; `offset` is null where nobody told it."""

EVENTS = pa.schema(
    [
        ("line", _i64),  # counted from 0 within the block of lines that was read together
        ("index", _i64),  # as the event itself says; null: it does not
        ("time", _i64),  # nanoseconds; null: it does not say
        ("process", _i64),  # null: not a numbered process (the nemesis), judged by nobody
        ("type", _str),  # invoke, ok, fail, info
        ("f", _str),  # send, poll, txn, assign, subscribe, crash, or what nobody judges
        ("sends", pa.list_(RECORD)),  # in the order of the micro-operations
        ("polls", pa.list_(RECORD)),  # in the order received, those of several polls one after the other
        ("keys", pa.list_(_i64)),  # of assign and subscribe
        ("rebalanced", pa.list_(_i64)),  # keys that the operation's rebalance-log names
        ("isolation", _str),  # null: read_committed
        ("names", pa.list_(pa.struct([("id", _i64), ("text", _str)]))),
        ("error", _str),  # why the line cannot be read; all else is null then
    ]
)
"""One row for each line that is not blank."""

SENDING, POLLING = ("txn", "send"), ("txn", "poll")
EFFECTIVE = ("txn", "send", "poll")
KNOWN = (*EFFECTIVE, "assign", "subscribe", "crash", "debug-topic-partitions")
"""What an operation may be (`f`). The EFFECTIVE ones have records; what is not KNOWN is passed over."""
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
        ("offset", _i64),  # null: nobody told it
        ("op", _i64),
        ("n", _i32),  # from 0 among the sends, and from 0 among what was polled, of the operation
        ("process", _i64),  # of the operation, as it stands in OPS: no check has to join it
        ("polled", pa.bool_()),  # else sent
        ("outcome", pa.int8()),  # of the operation: an index into OUTCOMES
    ]
)
"""One row for each micro-operation, a record sent or given: what the completions of `send`, `poll` and `txn`
name; of operations that never completed, or whose completions name no send, those of their invocations."""

NAMES = pa.schema([("run", _i64), ("id", _i64), ("text", _str)])
"""The canonical text (JSON, keys sorted) of what no small integer stands for."""

TABLES: dict[str, pa.Schema] = {"ops": OPS, "micro": MICRO, "names": NAMES}
