"""What stands in the brokers' log of a stored run, and room for more of it: the log is whole before and after."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.support.alterations import Copy, Row
from tests.support.altered_log import close_up

HOLDS = ("value", "output_name", "inputs", "digest", "key", "state", "about")
"""The columns of a record that say what it holds."""
OFFSETS = "__consumer_offsets"
ENDS = ("sentinel_offset", "next", "log_end", "high_watermark")
"""The columns that say where a partition ends."""


@dataclass(frozen=True)
class Txn:
    """A transaction that the log completes, with its markers: the partition and the offset of each."""

    decided: str  # commit or abort
    prepared: Row
    completed: Row
    markers: tuple[tuple[int, int], ...]


def outputs_topic(copy: Copy) -> str:
    """One that no stage reads."""
    read = {row["in_topic"] for row in copy.rows("stages")}
    return min(
        row["topic"] for row in copy.rows("partitions") if not row["internal"] and row["topic"] not in read
    )


def visible(copy: Copy, topic: str) -> list[Row]:
    """The records of that topic which the final read-committed reader was given, partition by partition."""
    given = {place(row) for row in copy.rows("polls") if row["role"] == "final"}
    tps = copy.tp(topic)
    rows = [
        row
        for row in copy.rows("records")
        if row["tp"] in tps and place(row) in given and not row["sentinel"]
    ]
    return sorted(rows, key=place)


def place(row: Row) -> tuple[int, int]:
    return row["tp"], row["offset"]


def replace_record(copy: Copy, at: Row, **holds: Any) -> None:
    """Have the record in this place hold something else."""
    copy.write(
        "records",
        [row | holds if place(row) == place(at) else row for row in copy.rows("records")],
    )


def leader_batches(copy: Copy) -> dict[int, list[Row]]:
    """By partition, what the leader holds, in order."""
    by: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(copy.rows("batches"), key=lambda row: row["base_offset"]):
        if row["leader"]:
            by[row["tp"]].append(row)
    return by


def marker_above(batches: dict[int, list[Row]], tp: int, offset: int) -> tuple[int, int]:
    """The place of the marker that decides this record."""
    own = next(row for row in batches[tp] if row["base_offset"] <= offset <= row["last_offset"])
    return tp, next(
        row["base_offset"]
        for row in batches[tp]
        if row["control"] and row["producer_id"] == own["producer_id"] and row["base_offset"] > offset
    )


def transaction_log(copy: Copy) -> list[Row]:
    """All of it, in order."""
    return sorted(copy.rows("transactions"), key=lambda row: (row["log_tp"], row["log_offset"]))


def txns(copy: Copy, decided: str) -> list[Txn]:
    """Those that were decided so and of which every marker is known, for no coordinator wrote one again."""
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
        Txn(decided, prepared, completed, tuple(sorted(found[n])))
        for n, (prepared, completed) in enumerate(ends)
        if completed["state"] == f"Complete{decided.capitalize()}"
        and len(found[n]) == len(prepared["tps"]) > 0
    ]


def records_of(copy: Copy, txn: Txn, topic: str) -> list[Row]:
    """What it wrote to that topic."""
    batches, tps = leader_batches(copy), copy.tp(topic)
    own = {
        (tp, offset)
        for tp, marker in txn.markers
        if tp in tps
        for row in batches[tp]
        if not row["control"] and row["producer_id"] == txn.prepared["producer_id"]
        for offset in range(row["base_offset"], row["last_offset"] + 1)
        if marker_above(batches, tp, offset) == (tp, marker)
    }
    return [row for row in copy.rows("records") if place(row) in own]


def mark(copy: Copy, markers: Iterable[tuple[int, int]], marker: str) -> None:
    """Have these markers say so, on every replica."""
    own = set(markers)
    rows = copy.rows("batches")
    for row in rows:
        if (row["tp"], row["base_offset"]) in own:
            row["marker"] = marker
    copy.write("batches", rows)


def decide(copy: Copy, txn: Txn, decided: str) -> None:
    """Have the transaction log, and every marker, say that it ended so."""
    mark(copy, txn.markers, decided)
    ends = {(row["log_tp"], row["log_offset"]): row["state"] for row in (txn.prepared, txn.completed)}
    rows = copy.rows("transactions")
    for row in rows:
        state = ends.get((row["log_tp"], row["log_offset"]))
        if state is not None:
            row["state"] = state.replace(txn.decided.capitalize(), decided.capitalize())
    copy.write("transactions", rows)


LAST_N = 1_000_000
"""Above the number of any record in a poll."""


def append(copy: Copy, tp: int, batches: list[Row], held: list[Row]) -> int:
    """Put batches at the end of a partition, below its sentinel, on every replica; the offset of the first. `held`:
    what their records hold, one for each. The final reader is given all of them.
    """
    end = make_room(copy, tp, sum(row["count"] for row in batches))
    kept = copy.rows("batches")
    replicas = [row for row in copy.rows("replicas") if row["tp"] == tp]
    at = end
    for row in batches:
        for one in replicas:
            here = {"tp": tp, "broker": one["broker"], "leader": one["leader"]}
            kept.append(row | here | {"base_offset": at, "last_offset": at + row["count"] - 1})
        at += row["count"]
    copy.write("batches", kept)
    run = kept[0]["run"]
    rows = [row | {"run": run, "tp": tp, "offset": end + n} for n, row in enumerate(held)]
    copy.write("records", [*copy.rows("records"), *rows])
    polls = copy.rows("polls")
    own = [row for row in polls if row["role"] == "final" and row["tp"] == tp]
    last = max(own, key=lambda row: (row["op"], row["n"]))
    given = [last | {"n": LAST_N + n, "offset": end + n, "value": None} for n in range(len(held))]
    if last["offset"] > end:  # the sentinel, which comes after them
        last["n"] = LAST_N + len(held)
    copy.write("polls", [*polls, *given])
    return end


def make_room(copy: Copy, tp: int, many: int) -> int:
    """Move the end of a partition up by so many offsets; the first of them."""
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
                if row[column] is not None and (column in ENDS or row[column] == sentinel):
                    row[column] += many
        copy.write(table, rows)
    return end if sentinel is None else sentinel


def take_out(copy: Copy, gone: Row) -> None:
    """Take a record out of the transaction log, as if it had never been written."""
    rows = [row for row in copy.rows("transactions") if row != gone]
    close_up(copy, rows, gone)
    copy.write("transactions", rows)


def write_down(copy: Copy, states: list[Row]) -> None:
    """Append to the partition of the transaction log in which the last of them stands."""
    log_tp = states[0]["log_tp"]
    first = make_room(copy, log_tp, len(states))
    rows = [row | {"log_offset": first + n} for n, row in enumerate(states)]
    copy.write("transactions", [*copy.rows("transactions"), *rows])
