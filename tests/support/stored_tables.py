"""Make every table of a small history's run, as a real run would have stored them."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.model.vocabulary import SENTINEL_VALUE
from harness.record.schema import HISTORY, LOG

if TYPE_CHECKING:
    from tests.support.histories import History

RC, RU = "read_committed", "read_uncommitted"
OFFSETS = "__consumer_offsets"
Row = dict[str, Any]


def make_tables(history: History) -> dict[str, list[Row]]:
    """Derive all tables from the events of a history, then apply its alterations. This works only once."""
    for revise in history.revisions:
        expected = [revise(dict(row)) for row in history.rows["expected"]]
        history.rows["expected"] = [row for row in expected if row is not None]
    _log_transactions(history)
    _final_reads(history)
    rows = history.rows
    for row in (*rows["sends"], *rows["expected"]):
        row["topic"] = topic_partition(history, row["topic"])[0]
    _describe(history)
    journal_of = {row["op"]: row["journal"] for row in rows["ops"]}
    for table, change in history.alterations:
        rows[table] = [changed for row in rows[table] if (changed := change(dict(row))) is not None]
    _clean(rows)
    altered = {table for table, _ in history.alterations}
    if "ends" not in altered and altered & {"polls", "records"}:
        _count_reads(rows)
    number_again(rows, altered)
    inputs: Counter[tuple[int, int]] = Counter()
    for row in rows["expected"]:
        row.setdefault("n", inputs[row["tp"], row["offset"]])
        inputs[row["tp"], row["offset"]] += 1
    _count_journal_rows(rows, journal_of)
    return rows


def _describe(history: History) -> None:
    """Make the tables of partitions, stages, journals and assignments."""
    rows = history.rows
    rows["partitions"] = [
        {
            "tp": tp,
            "topic": topic_partition(history, topic)[0],
            "partition": topic_partition(history, topic)[1],
            "internal": is_internal(history, topic),
            "compacted": topic_partition(history, topic)[0] == OFFSETS,
        }
        for topic, tp in history.tp.items()
    ]
    rows["stages"] = [
        {
            "stage": "s",
            "group": "g",
            "in_topic": topic,
            "promised": RC,
            "ordered": history.ordered,
            "journaled": True,
        }
        for topic in dict.fromkeys(topic_partition(history, letter)[0] for letter in history.inputs)
    ]
    for change in history.stage_changes:
        rows["stages"] = change(rows["stages"])
    stage_of = {row["journal"]: row["stage"] for row in rows["ops"]}
    rows["journals"] = [
        {
            "pid": 1,
            "lines": 2 * row["ops"],
            "torn_lines": 0,
            "missing_lines": 0,
            "ended": True,
            "stage": stage_of.get(row["journal"]),
        }
        | row
        for row in history.journals.values()
    ]
    workers = [row["journal"] for row in history.journals.values() if row["role"] == "worker"]
    rows["assignments"] = [
        {
            "journal": next(iter(workers), "f"),
            "process": 0,
            "group": "g",
            "time_ns": 0,
            "gained": True,
            "tp": history.tp[topic],
            "offset": 0,
        }
        for topic in history.inputs
    ] + rows["assignments"]


def _log_transactions(history: History) -> None:
    """Add transaction log entries for each producer for which the case wrote only markers."""
    logged = {row["producer_id"] for row in history.rows["transactions"]}
    marks: dict[int, dict[int, list[tuple[str, Row]]]] = {}
    for topic, entries in history.entries.items():
        own: dict[int, int] = {}
        before: dict[int, tuple[Any, Any]] = {}
        for entry in entries:
            pid, marker = entry["pid"], (entry.get("marker"), entry["epoch"])
            if "marker" in entry and pid not in logged and before.get(pid) != marker:
                nth = own[pid] = own.get(pid, -1) + 1
                marks.setdefault(pid, {}).setdefault(nth, []).append((topic, entry))
            before[pid] = marker
    for pid, transactions in marks.items():
        epoch = 0
        for _, parts in sorted(transactions.items()):
            entry = parts[0][1]
            epoch = max(epoch, entry["epoch"])
            history.log_transaction(pid, [topic for topic, _ in parts], entry["marker"].capitalize(), epoch)


def _clean(rows: dict[str, list[Row]]) -> None:
    """Remove the first record of each compacted partition, as the log cleaner does. Its batch stays."""
    for partition in rows["partitions"]:
        if partition["compacted"] and not partition.pop("kept", False):
            own = [row for row in rows["batches"] if row["tp"] == partition["tp"]]
            for row in own:
                if row["base_offset"] == min(batch["base_offset"] for batch in own):
                    row["count"] = 0


def _count_reads(rows: dict[str, list[Row]]) -> None:
    """Set the number of records that each final reader read to the rows that are left, unless none is left."""
    read_by = {RC: [row for row in rows["polls"] if row["role"] == "final"], RU: rows["records"]}
    for end in rows["ends"]:
        read = [row for row in read_by[end["isolation"]] if row["tp"] == end["tp"]]
        if read and end["role"] == "final":
            end["read"] = len(read)


def number_again(rows: dict[str, list[Row]], altered: Set[str]) -> None:
    """Number the rows of each operation from 0, if a case has removed some: no process has written them."""
    for table in altered & {"polls", "sends"}:
        by_operation: dict[int, list[Row]] = {}
        for row in rows[table]:
            by_operation.setdefault(row["op"], []).append(row)
        for own in by_operation.values():
            numbers = {n: at for at, n in enumerate(sorted({row["n"] for row in own}))}
            for row in own:
                row["n"] = numbers[row["n"]]


def count_polls(rows: dict[str, list[Row]]) -> None:
    """Set the number of polls that each journal had to those in the table."""
    journal_of = {row["op"]: row["journal"] for row in rows["ops"]}
    counts = Counter(journal_of.get(row["op"]) for row in rows["polls"])
    for journal in rows["journals"]:
        journal["polls"] = counts[journal["journal"]]


def _count_journal_rows(rows: dict[str, list[Row]], journal_of: Mapping[int, str]) -> None:
    """Set the numbers of rows that each journal had to those in the tables, unless the case sets them."""
    assigned = Counter(row["journal"] for row in rows["assignments"])
    for journal in rows["journals"]:
        journal.setdefault("assignments", assigned[journal["journal"]])
    for table in ("sends", "claims", "polls"):
        counts = Counter(journal_of.get(row["op"]) for row in rows[table])
        for journal in rows["journals"]:
            journal.setdefault(table, counts[journal["journal"]])


def topic_partition(history: History, letter: str) -> tuple[str, int]:
    """The topic and partition number of a letter."""
    return history.topic_partitions.get(letter, (letter, 0))


def is_internal(history: History, letter: str) -> bool:
    """Whether the topic is one of the brokers' internal topics."""
    return topic_partition(history, letter)[0].startswith("__")


def _final_reads(history: History) -> None:
    reader = history.op("z", "poll")
    for topic in history.topics:
        internal = is_internal(history, topic)
        end = None if internal else history.append(topic, SENTINEL_VALUE, sentinel=True)
        fates, tp = history.fates(topic), history.tp[topic]
        stable = fates.index("open") if "open" in fates else len(fates)
        for at, (entry, fate) in enumerate(zip(history.entries[topic], fates, strict=True)):
            _batch(history, tp, at, entry)
            if fate is None or internal:
                continue
            history.rows["records"].append(
                {
                    "tp": tp,
                    "offset": at,
                    "value": entry["value"],
                    "output_name": entry.get("output_name"),
                    "digest": entry.get("digest"),
                    "inputs": [
                        {"tp": history.tp[source], "offset": o} for source, o in entry.get("inputs", ())
                    ],
                    "timestamp_ms": entry["ms"],
                    "sentinel": entry.get("sentinel", False),
                    "key": entry.get("key"),
                    "state": entry.get("state"),
                }
            )
            if at < stable and fate in ("commit", "plain"):
                history.poll(reader, topic, at, entry["value"], role="final")
        for broker in range(1, history.followers + 2):
            history.rows["replicas"].append(
                {
                    "broker": broker,
                    "leader": broker == 1,
                    "tp": tp,
                    "topic_id": topic,
                    "log_start": 0,
                    "log_end": len(fates),
                    "high_watermark": len(fates),
                    "damaged": None,
                }
            )
        if end is not None:
            committed = sum(fate in ("commit", "plain") for fate in fates[:stable])
            _end(history, topic, RC, stable, end if end < stable else None, committed)
            _end(history, topic, RU, len(fates), end, sum(fate is not None for fate in fates))


def _end(history: History, topic: str, isolation: str, after: int, sentinel: int | None, read: int) -> None:
    history.rows["ends"].append(
        {
            "journal": "z",
            "isolation": isolation,
            "tp": history.tp[topic],
            "first": 0,
            "next": after,
            "read": read,
            "sentinel_offset": sentinel,
            "role": "final",
            "expected": sum(row["tp"] == history.tp[topic] for row in history.rows["expected"])
            if isolation == RU
            else None,
        }
    )


def _batch(history: History, tp: int, at: int, entry: Row) -> None:
    history.rows["batches"] += [
        {
            "broker": broker,
            "leader": broker == 1,
            "tp": tp,
            "base_offset": at,
            "last_offset": at,
            "count": 1,
            "producer_id": entry["pid"],
            "epoch": entry["epoch"] if entry["pid"] >= 0 else -1,
            "base_sequence": entry["seq"] if entry["pid"] >= 0 and "seq" in entry else -1,
            "transactional": entry["pid"] >= 0,
            "control": "marker" in entry,
            "marker": entry.get("marker"),
            "coordinator_epoch": 0,
            "leader_epoch": 0,
            "max_timestamp_ms": entry["ms"],
            "crc": zlib.crc32(repr(sorted(entry.items(), key=str)).encode()),
        }
        for broker in range(1, history.followers + 2)
    ]


def write_store(folder: Path, runs: Sequence[tuple[int, History]], *, log: bool) -> Path:
    """Write the tables of all runs into one folder. `log`: with the tables of the brokers' logs."""
    united: dict[str, list[Row]] = {table: [] for table in (*HISTORY, *LOG)}
    for number, history in runs:
        for table, rows in history.tables(number).items():
            united[table].extend(rows)
    for kind, schemas in (("history", HISTORY), ("log", LOG if log else {})):
        (folder / kind).mkdir(parents=True, exist_ok=True) if schemas else None
        for table, schema in schemas.items():
            pq.write_table(
                pa.Table.from_pylist(united[table], schema=schema), folder / kind / f"{table}.parquet"
            )
    return folder
