"""Read from a run's tables what happened around a fault, to prove that a scenario really occurred."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq

from fencepost.api import Result
from harness.settings.run_file import StoredPlan


def allowed_by_anomaly(result: Result) -> Mapping[str, bool]:
    """By name of an anomaly, whether it is allowed. Warnings and consequences of other anomalies are left out."""
    return {
        name: body["allowed"]
        for name, body in result.verdict["anomalies"].items()
        if not body.get("because") and not body.get("warning")
    }


def rows(result: Result, table: str) -> list[dict[str, Any]]:
    path = next(result.folder.glob(f"*/{table}.parquet"))
    return list(pq.read_table(path).to_pylist())


def fault_start_ms(result: Result, fault: Mapping[str, Any]) -> float:
    """The start of a fault by the brokers' clock."""
    zero_ms = StoredPlan.load(result.folder / "run.toml").run["wall_ms_at_zero"]
    return float(zero_ms) + 1000 * float(fault["start_s"])


def operations_during(result: Result, fault: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The transactions and sends of the fault's worker that were in progress when the fault began."""
    at_ns = 1e9 * fault["start_s"]
    return [
        row
        for row in rows(result, "ops")
        if row["journal"] == fault["details"]["worker"]
        and row["f"] in ("txn", "send")
        and row["call_ns"] <= at_ns
        and (row["return_ns"] is None or row["return_ns"] >= at_ns)
    ]


def transaction_during(result: Result, fault: Mapping[str, Any]) -> dict[str, Any]:
    """The transaction of the fault's worker that was in progress when the fault began."""
    (op,) = [row for row in operations_during(result, fault) if row["f"] == "txn"]
    return op


def last_transaction_before(result: Result, fault: Mapping[str, Any]) -> dict[str, Any]:
    """The last transaction that the fault's worker completed before the fault began."""
    own = [
        row
        for row in rows(result, "ops")
        if row["journal"] == fault["details"]["worker"]
        and row["f"] == "txn"
        and row["return_ns"] is not None
        and row["return_ns"] <= 1e9 * fault["start_s"]
    ]
    return max(own, key=lambda row: int(row["call_ns"]))


def batch_and_marker(
    result: Result, op: Mapping[str, Any], partition: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The leader's batch that has a transaction's last record in a partition, and the marker that ends it."""
    names = {row["tp"]: f"{row['topic']}/{row['partition']}" for row in rows(result, "partitions")}
    sends = [
        row for row in rows(result, "sends") if row["op"] == op["op"] and names.get(row["tp"]) == partition
    ]
    last = max(row["offset"] for row in sends)
    batches = [row for row in rows(result, "batches") if names[row["tp"]] == partition and row["leader"]]
    own = next(b for b in batches if b["base_offset"] <= last <= b["last_offset"])
    above = [b for b in batches if b["control"] and b["base_offset"] > last]
    return own, next(b for b in above if b["producer_id"] == own["producer_id"])


def written_but_not_acknowledged(result: Result) -> set[str]:
    """The attempts that were in the log before the worker could know it.

    An observer read them during a fault, and the worker got their acknowledgement after the fault.
    """
    attempts: set[str] = set()
    for fault in result.verdict["faults"]:
        start_ns, healing_ns = 1e9 * fault["start_s"], 1e9 * (fault["end_s"] - 0.5)
        waiting = {
            row["op"]
            for row in rows(result, "ops")
            if row["journal"] == fault["details"]["worker"]
            and row["f"] == "send"
            and row["call_ns"] <= healing_ns
            and (row["return_ns"] is None or row["return_ns"] >= healing_ns)
        }
        values = {row["value"] for row in rows(result, "sends") if row["op"] in waiting}
        attempts |= {
            row["value"]
            for row in rows(result, "polls")
            if row["role"] == "observer"
            and row["value"] in values
            and start_ns <= row["return_ns"] <= healing_ns
        }
    return attempts


def overtaking_transactions(result: Result, op: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The transactions of other workers that committed an input of this one before it ended."""
    claims = rows(result, "claims")
    starts = {(row["tp"], row["first"]) for row in claims if row["op"] == op["op"]}
    overlapping = {
        row["op"]
        for row in claims
        if any(row["tp"] == tp and row["first"] <= at < row["next"] for tp, at in starts)
    }
    return [
        row
        for row in rows(result, "ops")
        if row["op"] in overlapping
        and row["journal"] != op["journal"]
        and row["outcome"] == "ok"
        and row["return_ns"] < op["return_ns"]
    ]


def count_copies(result: Result, values: set[str]) -> Counter[str]:
    """How many records each of these attempts has in the log."""
    return Counter(row["value"] for row in rows(result, "records") if row["value"] in values)
