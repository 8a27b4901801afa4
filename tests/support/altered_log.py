"""Alterations of the broker logs in a valid store, and the anomaly that each must lead to."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from harness.common.documents import parse_toml
from harness.record.schema import HISTORY, LOG

Row = dict[str, Any]
NS_PER_S = 1_000_000_000
TIME_COLUMNS_MS = {"timestamp_ms", "max_timestamp_ms", "start_ms", "update_ms"}


class Tables(Protocol):
    """A copy of a store. Its tables can be rewritten."""

    folder: Path

    def rows(self, table: str) -> list[Row]: ...

    def write(self, table: str, rows: list[Row]) -> None: ...

    def tp(self, topic: str) -> set[int]: ...


def batches_by_producer(copy: Tables, topic: str) -> tuple[list[Row], dict[tuple[int, int], list[Row]]]:
    """All batches, and the leader's batches in order by partition of the topic and producer id."""
    rows, tps = copy.rows("batches"), copy.tp(topic)
    by: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["base_offset"]):
        if row["leader"] and row["tp"] in tps and row["producer_id"] >= 0:
            by.setdefault((row["tp"], row["producer_id"]), []).append(row)
    return rows, by


def batch_key(row: Row) -> tuple[int, int]:
    """The number of the topic partition, and the base offset."""
    return row["tp"], row["base_offset"]


def raise_the_epoch_of_a_batch(copy: Tables) -> None:
    """Raise the epoch of the last batch of a producer in a partition, so that its marker has a lower epoch."""
    rows, by = batches_by_producer(copy, "invoices")
    raised = [row for row in next(iter(by.values())) if not row["control"]][-1]
    copy.write("batches", [r | {"epoch": r["epoch"] + (batch_key(r) == batch_key(raised))} for r in rows])


def skip_a_sequence_number(copy: Tables) -> None:
    rows, by = batches_by_producer(copy, "shipments")
    batches = [row for row in next(own for own in by.values() if len(own) > 5) if not row["control"]]
    moved = batch_key(batches[len(batches) // 2])
    copy.write("batches", [r | {"base_sequence": r["base_sequence"] + (batch_key(r) == moved)} for r in rows])


def complete_a_prepared_commit_as_an_abort(copy: Tables) -> None:
    rows = copy.rows("transactions")
    done = [row for row in rows if row["state"] == "CompleteCommit"]
    done[len(done) // 2]["state"] = "CompleteAbort"
    copy.write("transactions", rows)


AT = {
    "batches": {"tp": ("base_offset", "last_offset")},
    "replicas": {"tp": ("log_end", "high_watermark")},
    "ends": {"tp": ("next", "sentinel_offset")},
    "claims": {"tp": ("first", "next")},
    "offsets": {"log_tp": ("log_offset",), "tp": ("committed",)},
    "transactions": {"log_tp": ("log_offset",)},
    **{name: {"tp": ("offset",)} for name in ("records", "polls", "sends", "assignments", "expected")},
}
"""By table and column of partition ids: the columns with offsets of that partition."""
HELD_AT = {
    "offsets": ("log_tp", "log_offset"),
    "transactions": ("log_tp", "log_offset"),
    "records": ("tp", "offset"),
    "polls": ("tp", "offset"),
}
"""By table of what is in a log: the columns with the partition and the offset of a row."""


def take_out(copy: Tables, tp: int, offset: int) -> None:
    """Remove a record or a marker as if it had never been written: from its batch, the log's tables and all reads.

    Everything above it in the partition moves down by one offset.
    """

    def moved(table: str, row: Row) -> Row:
        above = {
            name: row[name] - 1
            for partition, columns in AT[table].items()
            for name in columns
            if row[partition] == tp and row[name] is not None and row[name] > offset
        }
        if inputs := row.get("inputs"):
            lower = [
                one | {"offset": one["offset"] - (one["tp"] == tp and one["offset"] > offset)}
                for one in inputs
            ]
            above["inputs"] = lower
        return row | above

    for table in AT:
        rows = copy.rows(table)
        if table == "batches":
            for row in rows:
                if row["tp"] == tp and row["base_offset"] <= offset <= row["last_offset"]:
                    row["count"] -= 1
                    row["last_offset"] -= row["last_offset"] == offset
            rows = [row for row in rows if row["count"]]
        if table in HELD_AT:
            partition, position = HELD_AT[table]
            rows = [row for row in rows if (row[partition], row[position]) != (tp, offset)]
        copy.write(table, [moved(table, row) for row in rows])


def never_complete_a_transaction(copy: Tables) -> None:
    """Remove the last completion of a transactional id, and prepare its transaction a minute earlier."""
    rows = sorted(copy.rows("transactions"), key=lambda row: (row["log_tp"], row["log_offset"]))
    last = {row["transactional_id"]: row for row in rows}
    gone = next(row for row in last.values() if row["state"] == "CompleteCommit")
    before = [row for row in rows if row["transactional_id"] == gone["transactional_id"]][-2]
    before["update_ms"] -= 60_000
    copy.write("transactions", rows)
    take_out(copy, gone["log_tp"], gone["log_offset"])


def remove_a_marker(copy: Tables) -> None:
    """Remove a commit marker from every replica. The producer's next marker is a commit too."""
    completions: Counter[tuple[int, int]] = Counter()
    by_id: dict[str, list[Row]] = {}
    for row in sorted(copy.rows("transactions"), key=lambda row: (row["log_tp"], row["log_offset"])):
        by_id.setdefault(row["transactional_id"], []).append(row)
    for own in by_id.values():
        for before, after in pairwise(own):
            if after["state"].startswith("Complete"):
                completions.update((tp, before["producer_id"]) for tp in before["tps"])
    by = batches_by_producer(copy, "payments")[1]
    for tp_and_producer, own in by.items():
        kinds = [row["marker"] if row["control"] else "data" for row in own]
        if sum(row["control"] for row in own) != completions[tp_and_producer]:
            continue
        for at in range(1, len(kinds) - 2):
            if kinds[at - 1 : at + 3] == ["data", "commit", "data", "commit"]:
                take_out(copy, *batch_key(own[at]))
                return
    raise AssertionError("no producer committed twice in a row")


def change_a_batch_of_one_replica(copy: Tables) -> None:
    rows, tps = copy.rows("batches"), copy.tp("invoices")
    followed = [row for row in rows if not row["leader"] and row["tp"] in tps and not row["control"]]
    followed[len(followed) // 2]["crc"] ^= 1
    copy.write("batches", rows)


def contend_for_an_id(copy: Tables) -> None:
    """Turn a worker's first poll into a second initialisation, and let another worker take the id in between."""
    rows = copy.rows("ops")
    inits = [row for row in rows if row["f"] == "init" and row["outcome"] == "ok"]
    own = min(inits, key=lambda row: int(row["return_ns"]))
    other = next(row for row in inits if row["journal"].split("-")[0] != own["journal"].split("-")[0])
    poll = next(row for row in rows if row["f"] == "poll" and row["journal"] == own["journal"])
    begun = own["return_ns"]
    other |= {"transactional_id": own["transactional_id"], "call_ns": begun + 1, "return_ns": begun + 2}
    poll |= {
        "f": "init",
        "transactional_id": own["transactional_id"],
        "call_ns": begun + 3,
        "return_ns": begun + 4,
    }
    copy.write("ops", rows)


def fence_a_producer_without_cause(copy: Tables) -> None:
    """Fence a transaction of a worker whose transactional id was initialised only once."""
    rows = copy.rows("ops")
    inits = Counter(row["transactional_id"] for row in rows if row["f"] == "init")
    failed = [row for row in rows if row["f"] == "txn" and row["outcome"] == "fail"]
    txn = next(row for row in failed if inits[row["transactional_id"]] == 1)
    txn["fenced"] = True
    copy.write("ops", rows)


def stall_for_two_minutes(copy: Tables) -> None:
    """Move everything after the middle commit of a stage two minutes later. All faults end before that commit."""
    plan = parse_toml((copy.folder / "run.toml").read_text())
    of_stage = [row for row in copy.rows("ops") if row["stage"] == "payments" and row["f"] == "txn"]
    commits = sorted(row["return_ns"] for row in of_stage if row["outcome"] == "ok")
    half = commits[len(commits) // 2]
    half_ms = plan["run"]["wall_ms_at_zero"] + half / 1e6

    def later(row: Row) -> Row:
        by_ns = {
            name: 120 * NS_PER_S for name, at in row.items() if name.endswith("_ns") and at and at > half
        }
        by_ms = {name: 120_000 for name in TIME_COLUMNS_MS & row.keys() if (row[name] or 0) > half_ms}
        return row | {name: row[name] + by for name, by in (by_ns | by_ms).items()}

    for table in HISTORY | LOG:
        copy.write(table, [later(row) for row in copy.rows(table)])
    file = copy.folder / "metadata.json"
    metadata = json.loads(file.read_text())
    for fault in metadata["faults"]:
        fault |= {name: min(fault[name], half / NS_PER_S) for name in ("start_s", "end_s")}
    for phase in metadata["phases"]:
        phase |= {name: phase[name] + 120 for name in ("start_s", "end_s") if phase[name] > half / NS_PER_S}
    file.write_text(json.dumps(metadata))


ROOTS: dict[Callable[[Tables], None], tuple[str, set[str]]] = {
    raise_the_epoch_of_a_batch: ("epoch-regression", {"sequence-violation", "zombie-write"}),
    skip_a_sequence_number: ("sequence-violation", set()),
    complete_a_prepared_commit_as_an_abort: ("transaction-state-violation", {"torn-transaction"}),
    never_complete_a_transaction: ("stuck-completion", set()),
    remove_a_marker: ("unmarked-partition", {"dirty-read"}),
    change_a_batch_of_one_replica: ("replica-divergence", set()),
}
"""The anomaly that must be found, and those that may be found besides.

Without its marker, a record counts as undecided until the producer's next marker. Reads before that are dirty reads.
"""
WARNINGS: dict[Callable[[Tables], None], str] = {
    contend_for_an_id: "contended-id",
    fence_a_producer_without_cause: "undue-fencing",
    stall_for_two_minutes: "stalled",
}
"""The warning that must be listed. The run stays valid."""
