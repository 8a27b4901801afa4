"""Make the tables of a valid run of any length, to warm up Spark.

One stage takes each record of topic `a` and makes one record of it in topic `x`, a few in a transaction. A feeder, a
worker and an observer keep journals, two brokers have every record, and final readers have read all records.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.stored.sources import StoredRun
from harness.model.vocabulary import SENTINEL_VALUE, Isolation, Role
from harness.record.schema import HISTORY, LOG

Row = dict[str, Any]
TPS = A, X, OFFSETS, STATES = range(4)
TOPICS = ("a", "x", "__consumer_offsets", "__transaction_state")
INPUTS_PER_TRANSACTION = 3
"""The number of inputs of a transaction."""
STEP_NS = 1_000_000
BROKERS = (1, 2)
FEEDER, WORKER = 1, 2
"""Producer ids."""
GROUP: Row = {"stage": "s", "group": "g"}


def write_valid_run(folder: Path, inputs: int) -> StoredRun:
    """Write a valid run, as number 0, with at least `inputs` inputs. The last transaction is full."""
    tables = valid_run(-(-inputs // INPUTS_PER_TRANSACTION))
    for kind, schemas in (("history", HISTORY), ("log", LOG)):
        (folder / kind).mkdir()
        for table, schema in schemas.items():
            rows = [row | {"run": 0} for row in tables[table]]
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / kind / f"{table}.parquet")
    return StoredRun(0, folder, 0.0, healed=True)


def valid_run(transactions: int) -> Mapping[str, list[Row]]:
    """Return the rows of the tables of a valid run, without the column `run`."""
    inputs = transactions * INPUTS_PER_TRANSACTION
    tables: dict[str, list[Row]] = {table: [] for table in (*HISTORY, *LOG)}
    for at in range(inputs):
        _feed(tables, at)
    for number in range(transactions):
        _take(tables, number, inputs)
    last = inputs + transactions
    _journal(tables, "f", Role.FEEDER, inputs, sends=inputs)
    _journal(tables, "w", Role.WORKER, transactions, sends=inputs, claims=transactions)
    for op, journal, role in ((last, "o", Role.OBSERVER), (last + 1, "z", Role.FINAL)):
        tables["ops"].append(_op(op, f"{journal}:0", journal, "poll"))
        _journal(tables, journal, role, 1)
        for n, record in enumerate(tables["records"]):
            tables["polls"].append(_poll(op, n, record, role))
    for tp, end in ((A, inputs), (X, transactions * (INPUTS_PER_TRANSACTION + 1))):
        _end(tables, tp, end, inputs)
    _describe(tables)
    return tables


def _feed(tables: dict[str, list[Row]], at: int) -> None:
    """Add an input, and its expected output."""
    value = f"f:{at}:0"
    tables["ops"].append(_op(at, f"f:{at}", "f", "send"))
    position = {"tp": A, "offset": at, "value": value, "digest": 7}
    tables["sends"].append(position | {"op": at, "n": 0, "topic": "a", "acked": True, "inputs": []})
    _record(tables, position | {"inputs": []}, at)
    _batch(tables, A, at, FEEDER, at, base_sequence=at)
    tables["expected"].append(GROUP | {"tp": A, "offset": at, "output_name": "x", "topic": "x", "digest": 7})


def _take(tables: dict[str, list[Row]], number: int, first: int) -> None:
    """Add a transaction. `first`: the number of the first operation of the worker."""
    op, inputs = first + number, range(number * INPUTS_PER_TRANSACTION, (number + 1) * INPUTS_PER_TRANSACTION)
    commit = {"asked": "commit", "transactional_id": "id", "commit_ns": (2 * op + 1) * STEP_NS}
    tables["ops"].append(_op(op, f"w:{number}", "w", "txn") | GROUP | commit)
    base = number * (INPUTS_PER_TRANSACTION + 1)
    for n, at in enumerate(inputs):
        read = {"tp": A, "offset": at, "value": f"f:{at}:0"}
        tables["polls"].append(_poll(op, n, read, Role.WORKER))
        position = {
            "tp": X,
            "offset": base + n,
            "value": f"w:{number}:{n}",
            "output_name": "x",
            "digest": 7,
            "inputs": [{"tp": A, "offset": at}],
        }
        tables["sends"].append(position | {"op": op, "n": n, "topic": "x", "acked": True})
        _record(tables, position | {"key": f"k{at % 97}"}, op)
    transactional = {"transactional": True}
    sequence = number * INPUTS_PER_TRANSACTION
    _batch(tables, X, base, WORKER, op, count=INPUTS_PER_TRANSACTION, base_sequence=sequence, **transactional)
    _batch(tables, X, base + INPUTS_PER_TRANSACTION, WORKER, op, marker="commit", **transactional)
    _batch(tables, OFFSETS, 2 * number, WORKER, op, base_sequence=number, **transactional)
    _batch(tables, OFFSETS, 2 * number + 1, WORKER, op, marker="commit", **transactional)
    tables["claims"].append({"op": op, "group": "g", "tp": A, "first": inputs.start, "next": inputs.stop})
    tables["offsets"].append(
        {
            "log_tp": OFFSETS,
            "log_offset": 2 * number,
            "group": "g",
            "tp": A,
            "committed": inputs.stop,
            "metadata": f"w:{number}",
            "op": op,
            "producer_id": WORKER,
            "epoch": 0,
            "transactional": True,
            "timestamp_ms": _ms(op),
        }
    )
    for n, state in enumerate(("Ongoing", "PrepareCommit", "CompleteCommit")):
        at = number * 3 + n
        _batch(tables, STATES, at, -1, op)
        tables["transactions"].append(
            {
                "log_tp": STATES,
                "log_offset": at,
                "transactional_id": "id",
                "producer_id": WORKER,
                "epoch": 0,
                "state": state,
                "tps": [] if state == "CompleteCommit" else [X, OFFSETS],
                "timeout_ms": 10_000,
                "start_ms": _ms(op),
                "update_ms": _ms(op),
            }
        )


def _end(tables: dict[str, list[Row]], tp: int, end: int, inputs: int) -> None:
    """Add the sentinel, and the final readers that reached it."""
    sentinel = {"tp": tp, "offset": end, "value": SENTINEL_VALUE, "inputs": [], "sentinel": True}
    ms = _ms(2 * inputs)
    tables["records"].append(sentinel | {"timestamp_ms": ms})
    _batch(tables, tp, end, -1, 2 * inputs)
    reader = next(row["op"] for row in tables["ops"] if row["journal"] == "z")
    tables["polls"].append(_poll(reader, 2 * inputs + tp, sentinel, Role.FINAL))
    for isolation in Isolation:
        tables["ends"].append(
            {
                "journal": "z",
                "isolation": isolation.value,
                "tp": tp,
                "first": 0,
                "next": end + 1,
                "read": inputs + 1,
                "sentinel_offset": end,
                "role": Role.FINAL.value,
            }
        )


def _describe(tables: dict[str, list[Row]]) -> None:
    """Add topics, replicas, the stage, and the assignment of its worker."""
    for tp in TPS:
        compacted = tp == OFFSETS
        internal = tp in (OFFSETS, STATES)
        tables["partitions"].append(
            {"tp": tp, "topic": TOPICS[tp], "partition": 0, "internal": internal, "compacted": compacted}
        )
        end = max(row["last_offset"] for row in tables["batches"] if row["tp"] == tp) + 1
        replica = {"tp": tp, "topic_id": TOPICS[tp], "log_start": 0, "log_end": end, "high_watermark": end}
        tables["replicas"] += [
            replica | {"broker": broker, "leader": broker == BROKERS[0]} for broker in BROKERS
        ]
    tables["stages"].append(
        GROUP
        | {
            "in_topic": "a",
            "promised": Isolation.READ_COMMITTED.value,
            "ordered": True,
            "positions": "group",
            "guarantee": "exactly-once",
            "journaled": True,
        }
    )
    tables["assignments"].append(
        {"journal": "w", "process": 0, "group": "g", "time_ns": 0, "gained": True, "tp": A, "offset": 0}
    )


def _journal(
    tables: dict[str, list[Row]], name: str, role: Role, ops: int, sends: int = 0, claims: int = 0
) -> None:
    journal = {"journal": name, "role": role.value, "pid": 1, "ops": ops, "lines": 2 * ops, "ended": True}
    stage = "s" if role is Role.WORKER else None
    counts = {"sends": sends, "claims": claims}
    tables["journals"].append(journal | counts | {"stage": stage, "torn_lines": 0, "missing_lines": 0})


def _op(number: int, name: str, journal: str, f: str) -> Row:
    begun_ns = 2 * number * STEP_NS
    return {
        "op": number,
        "name": name,
        "journal": journal,
        "process": 0,
        "f": f,
        "outcome": "ok",
        "call_ns": begun_ns,
        "return_ns": begun_ns + 2 * STEP_NS - 1,
        "fenced": False,
        "line": 1,
        "end_line": 2,
    }


def _poll(op: int, n: int, position: Row, role: Role) -> Row:
    position = {column: position[column] for column in ("tp", "offset", "value")}
    reader = {"role": role.value, "promised": Isolation.READ_COMMITTED.value}
    return position | reader | {"op": op, "n": n, "return_ns": (2 * op + 2) * STEP_NS - 1}


def _record(tables: dict[str, list[Row]], position: Row, op: int) -> None:
    tables["records"].append(position | {"timestamp_ms": _ms(op), "sentinel": False})


def _batch(
    tables: dict[str, list[Row]], tp: int, at: int, producer: int, op: int, *, count: int = 1, **columns: Any
) -> None:
    batch = {
        "tp": tp,
        "base_offset": at,
        "last_offset": at + count - 1,
        "count": count,
        "producer_id": producer,
        "epoch": -1 if producer < 0 else 0,
        "base_sequence": -1,
        "transactional": False,
        "control": "marker" in columns,
        "coordinator_epoch": 0 if "marker" in columns else None,
        "leader_epoch": 0,
        "max_timestamp_ms": _ms(op),
        "crc": 0,
    }
    tables["batches"] += [
        batch | columns | {"broker": broker, "leader": broker == BROKERS[0]} for broker in BROKERS
    ]


def _ms(op: int) -> int:
    """Return the wall clock at which an operation requested its commit. It is 0 at the start of the run."""
    return (2 * op + 1) * STEP_NS // 1_000_000
