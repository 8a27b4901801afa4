"""Read and change the broker logs in a stored run. The logs are whole before and after each change."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.support.alterations import Copy, Row
from tests.support.altered_log import take_out

CONTENT_COLUMNS = ("value", "output_name", "inputs", "digest", "key", "state", "correlation_key")
"""The columns that are the content of a record."""
OFFSETS = "__consumer_offsets"
END_COLUMNS = ("sentinel_offset", "next", "log_end", "high_watermark")
"""The columns that are the end of a partition."""


@dataclass(frozen=True)
class Txn:
    """A transaction that the transaction log completes."""

    decision: str  # commit or abort
    prepared: Row
    completed: Row
    markers: tuple[tuple[int, int], ...]  # number of the topic partition, and offset


def outputs_topic(copy: Copy) -> str:
    """A topic that no stage reads."""
    read = {row["in_topic"] for row in copy.rows("stages")}
    return min(
        row["topic"] for row in copy.rows("partitions") if not row["internal"] and row["topic"] not in read
    )


def visible_records(copy: Copy, topic: str) -> list[Row]:
    """The records of a topic that the final read-committed reader read, by partition and offset."""
    read = {record_key(row) for row in copy.rows("polls") if row["role"] == "final"}
    tps = copy.tp(topic)
    rows = [
        row
        for row in copy.rows("records")
        if row["tp"] in tps and record_key(row) in read and not row["sentinel"]
    ]
    return sorted(rows, key=record_key)


def record_key(row: Row) -> tuple[int, int]:
    """The number of the topic partition, and the offset."""
    return row["tp"], row["offset"]


def replace_record(copy: Copy, record: Row, **columns: Any) -> None:
    """Change columns of the record at this offset."""
    key = record_key(record)
    copy.write("records", [row | columns if record_key(row) == key else row for row in copy.rows("records")])


def leader_batches(copy: Copy) -> dict[int, list[Row]]:
    """The leader's batches by partition, in order."""
    by: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(copy.rows("batches"), key=lambda row: row["base_offset"]):
        if row["leader"]:
            by[row["tp"]].append(row)
    return by


def deciding_marker(batches: dict[int, list[Row]], tp: int, offset: int) -> tuple[int, int]:
    """The partition and offset of the marker that ends the record's transaction."""
    own = next(row for row in batches[tp] if row["base_offset"] <= offset <= row["last_offset"])
    return tp, next(
        row["base_offset"]
        for row in batches[tp]
        if row["control"] and row["producer_id"] == own["producer_id"] and row["base_offset"] > offset
    )


def transaction_log(copy: Copy) -> list[Row]:
    """All rows of the transaction log, in order."""
    return sorted(copy.rows("transactions"), key=lambda row: (row["log_tp"], row["log_offset"]))


def decided_transactions(copy: Copy, decision: str) -> list[Txn]:
    """Transactions that ended with this decision and have exactly one marker in each of their partitions."""
    markers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for tp, rows in leader_batches(copy).items():
        for row in rows:
            if row["control"]:
                markers[tp, row["producer_id"]].append(row["base_offset"])
    before: dict[str, Row] = {}
    ends: list[tuple[Row, Row]] = []
    for row in transaction_log(copy):
        name = row["transactional_id"]
        if row["state"].startswith("Complete"):
            ends.append((before[name], row))
        before[name] = row
    listed: dict[tuple[int, int], list[int]] = defaultdict(list)
    for n, (prepared, _) in enumerate(ends):
        for tp in prepared["tps"]:
            listed[tp, prepared["producer_id"]].append(n)
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for key, numbers in listed.items():
        if len(numbers) == len(markers[key]):
            for n, offset in zip(numbers, markers[key], strict=True):
                found[n].append((key[0], offset))
    return [
        Txn(decision, prepared, completed, tuple(sorted(found[n])))
        for n, (prepared, completed) in enumerate(ends)
        if completed["state"] == f"Complete{decision.capitalize()}"
        and len(found[n]) == len(prepared["tps"]) > 0
    ]


def records_of_transaction(copy: Copy, txn: Txn, topic: str) -> list[Row]:
    """The records that a transaction wrote to a topic."""
    batches, tps = leader_batches(copy), copy.tp(topic)
    own = {
        (tp, offset)
        for tp, marker in txn.markers
        if tp in tps
        for row in batches[tp]
        if not row["control"] and row["producer_id"] == txn.prepared["producer_id"]
        for offset in range(row["base_offset"], row["last_offset"] + 1)
        if deciding_marker(batches, tp, offset) == (tp, marker)
    }
    return [row for row in copy.rows("records") if record_key(row) in own]


def set_markers(copy: Copy, markers: Iterable[tuple[int, int]], marker: str) -> None:
    """Change the type of these markers on every replica."""
    own = set(markers)
    rows = copy.rows("batches")
    for row in rows:
        if (row["tp"], row["base_offset"]) in own:
            row["marker"] = marker
    copy.write("batches", rows)


def set_decision(copy: Copy, txn: Txn, decision: str) -> None:
    """Change the end of a transaction in the transaction log and in every marker."""
    set_markers(copy, txn.markers, decision)
    ends = {(row["log_tp"], row["log_offset"]): row["state"] for row in (txn.prepared, txn.completed)}
    rows = copy.rows("transactions")
    for row in rows:
        state = ends.get((row["log_tp"], row["log_offset"]))
        if state is not None:
            row["state"] = state.replace(txn.decision.capitalize(), decision.capitalize())
    copy.write("transactions", rows)


LAST_N = 1_000_000
"""A number above the number of any record in a poll."""


def append_batches(copy: Copy, tp: int, batches: list[Row], records: list[Row]) -> int:
    """Insert batches before the sentinel of a partition, on every replica.

    Args:
        copy: The store.
        tp: The number of the topic partition.
        batches: The batches and markers.
        records: Their records. The final reader reads all of them.

    Returns:
        The offset of the first batch.
    """
    end = move_end(copy, tp, sum(row["count"] for row in batches))
    all_batches = copy.rows("batches")
    replicas = [row for row in copy.rows("replicas") if row["tp"] == tp]
    at = end
    for row in batches:
        for replica in replicas:
            columns = {"tp": tp, "broker": replica["broker"], "leader": replica["leader"]}
            all_batches.append(row | columns | {"base_offset": at, "last_offset": at + row["count"] - 1})
        at += row["count"]
    copy.write("batches", all_batches)
    run = all_batches[0]["run"]
    rows = [row | {"run": run, "tp": tp, "offset": end + n} for n, row in enumerate(records)]
    copy.write("records", [*copy.rows("records"), *rows])
    if not records:
        return end
    polls = copy.rows("polls")
    own = [row for row in polls if row["role"] == "final" and row["tp"] == tp]
    last = max(own, key=lambda row: (row["op"], row["n"]))
    reads = [last | {"n": LAST_N + n, "offset": end + n, "value": None} for n in range(len(records))]
    if last["offset"] > end:  # the sentinel, which comes after the new records
        last["n"] = LAST_N + len(records)
    copy.write("polls", [*polls, *reads])
    return end


def move_end(copy: Copy, tp: int, count: int) -> int:
    """Move the end of a partition up by `count` offsets, and return the first free offset."""
    sentinel = next(
        (row["offset"] for row in copy.rows("records") if row["tp"] == tp and row["sentinel"]), None
    )
    end = next(row["log_end"] for row in copy.rows("replicas") if row["tp"] == tp and row["leader"])
    for table, columns in {
        "records": ("offset",),
        "polls": ("offset",),
        "batches": ("base_offset", "last_offset"),
        "ends": ("sentinel_offset", "next"),
        "replicas": ("log_end", "high_watermark"),
    }.items():
        rows = copy.rows(table)
        for row in rows:
            if row["tp"] != tp or row.get("role") == "observer":
                continue
            for column in columns:
                if row[column] is not None and (column in END_COLUMNS or row[column] == sentinel):
                    row[column] += count
        copy.write(table, rows)
    return end if sentinel is None else sentinel


def remove_state(copy: Copy, state: Row) -> None:
    """Remove a state from the transaction log, as if it had never been written."""
    take_out(copy, state["log_tp"], state["log_offset"])


def append_states(copy: Copy, states: list[Row]) -> None:
    """Append states to their partition of the transaction log."""
    log_tp = states[0]["log_tp"]
    batch = next(row for row in copy.rows("batches") if row["tp"] == log_tp)
    first = append_batches(copy, log_tp, [batch | {"count": 1}] * len(states), [])
    rows = [row | {"log_offset": first + n} for n, row in enumerate(states)]
    copy.write("transactions", [*copy.rows("transactions"), *rows])
