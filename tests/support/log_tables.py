"""Rows of the broker logs of a tiny run, for tests of what is read from them. Times are seconds of the run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from harness.record.schema import LOG
from harness.record.table_reader import RunTables
from tests.support.synthetic_store import write_table

ZERO_MS = 1_000_000.0
IN, OUT, OFFSETS, STATES = 0, 1, 2, 3
"""The partitions of a tiny run."""
TOPICS = {IN: "in", OUT: "out", OFFSETS: "__consumer_offsets", STATES: "__transaction_state"}
Row = dict[str, Any]


def wall_ms(at_s: float) -> int:
    """The wall clock at a time of the run."""
    return round(ZERO_MS + at_s * 1e3)


def batch(tp: int, base: int, at_s: float, count: int = 1, producer: int = 7, **more: Any) -> Row:
    """A batch of a transaction, in the leader's log."""
    row = {"tp": tp, "base_offset": base, "last_offset": base + count - 1, "count": count, "leader": True}
    row |= {"producer_id": producer, "transactional": True, "control": False}
    return row | {"max_timestamp_ms": wall_ms(at_s)} | more


def plain(tp: int, base: int, at_s: float, count: int = 1, **more: Any) -> Row:
    """A batch outside transactions."""
    return batch(tp, base, at_s, count, -1, transactional=False, **more)


def marker(tp: int, base: int, at_s: float, kind: str = "commit", producer: int = 7, **more: Any) -> Row:
    """A marker."""
    return batch(tp, base, at_s, 1, producer, control=True, marker=kind, **more)


def offset_commit(log_offset: int, committed: int | None, at_s: float, tp: int = IN, **more: Any) -> Row:
    """A commit of the group g in a transaction."""
    row = {"log_tp": OFFSETS, "log_offset": log_offset, "group": "g", "tp": tp, "committed": committed}
    return row | {"transactional": True, "timestamp_ms": wall_ms(at_s)} | more


def state(name: str, at_s: float, offset: int, own: str = "g-1", timeout_ms: int = 10_000) -> Row:
    """A record of the transaction log."""
    row = {"transactional_id": own, "log_tp": STATES, "log_offset": offset, "state": name}
    return row | {"start_ms": None, "timeout_ms": timeout_ms, "update_ms": wall_ms(at_s)}


def write_run(folder: Path, **tables: Sequence[Row]) -> RunTables:
    """Write a run without journals whose stage reads `in` and writes `out`. Tables that are not named do not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    stage = {"name": "bill", "reads": ["in"], "writes": ["out"], "group": "g", "journaled": False}
    settings = {"run": {"wall_ms_at_zero": ZERO_MS}, "workload": {"stages": [stage]}}
    (folder / "run.toml").write_text(tomli_w.dumps(settings))
    write_table(
        folder, "partitions", [{"tp": tp, "topic": topic, "partition": 0} for tp, topic in TOPICS.items()]
    )
    for name, rows in tables.items():
        if name in LOG:
            (folder / "log").mkdir(exist_ok=True)
            table = pa.Table.from_pylist(list(rows), schema=LOG[name])
            pq.write_table(table, folder / "log" / f"{name}.parquet")
        else:
            write_table(folder, name, list(rows))
    return RunTables(folder)
