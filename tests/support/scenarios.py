"""What the tables of a run say of a fault: the proof that a scenario was the one that it names."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq

from fencepost.api import Result
from harness.settings.run_file import StoredPlan


def found(result: Result) -> Mapping[str, bool]:
    """By anomaly, whether it is permitted; warnings and consequences aside."""
    told = result.verdict["anomalies"].items()
    return {
        name: body["allowed"] for name, body in told if not body.get("because") and not body.get("warning")
    }


def rows(result: Result, table: str) -> list[dict[str, Any]]:
    path = next(result.folder.glob(f"*/{table}.parquet"))
    return list(pq.read_table(path).to_pylist())


def struck_ms(result: Result, fault: Mapping[str, Any]) -> float:
    """When a fault struck, by the brokers' clock."""
    zero_ms = StoredPlan.load(result.folder / "run.toml").run["wall_ms_at_zero"]
    return float(zero_ms) + 1000 * float(fault["start_s"])


def operations(result: Result, fault: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The transactions and sends of the worker that a fault struck which were under way then."""
    at_ns = 1e9 * fault["start_s"]
    return [
        row
        for row in rows(result, "ops")
        if row["journal"] == fault["details"]["worker"]
        and row["f"] in ("txn", "send")
        and row["call_ns"] <= at_ns
        and (row["return_ns"] is None or row["return_ns"] >= at_ns)
    ]


def transaction(result: Result, fault: Mapping[str, Any]) -> dict[str, Any]:
    """The transaction in which the worker was that a fault struck."""
    (op,) = [row for row in operations(result, fault) if row["f"] == "txn"]
    return op


def before(result: Result, fault: Mapping[str, Any]) -> dict[str, Any]:
    """The last transaction that the worker had ended when the fault struck."""
    own = [
        row
        for row in rows(result, "ops")
        if row["journal"] == fault["details"]["worker"]
        and row["f"] == "txn"
        and row["return_ns"] is not None
        and row["return_ns"] <= 1e9 * fault["start_s"]
    ]
    return max(own, key=lambda row: int(row["call_ns"]))


def marked(result: Result, op: Mapping[str, Any], named: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The leader's batch with a transaction's last record in a partition, and the marker that decided it."""
    places = {row["tp"]: f"{row['topic']}/{row['partition']}" for row in rows(result, "partitions")}
    sent = [row for row in rows(result, "sends") if row["op"] == op["op"] and places.get(row["tp"]) == named]
    last = max(row["offset"] for row in sent)
    here = [row for row in rows(result, "batches") if places[row["tp"]] == named and row["leader"]]
    own = next(b for b in here if b["base_offset"] <= last <= b["last_offset"])
    above = [b for b in here if b["control"] and b["base_offset"] > last]
    return own, next(b for b in above if b["producer_id"] == own["producer_id"])


def unanswered(result: Result) -> set[str]:
    """The attempts that stood in the log while the worker could not know: an observer was given them during the fault,
    and the worker was told after it.
    """
    found: set[str] = set()
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
        found |= {
            row["value"]
            for row in rows(result, "polls")
            if row["role"] == "observer"
            and row["value"] in values
            and start_ns <= row["return_ns"] <= healing_ns
        }
    return found


def successors(result: Result, op: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The transactions of others that had committed an input of this one before it ended."""
    claims = rows(result, "claims")
    held = {(row["tp"], row["first"]) for row in claims if row["op"] == op["op"]}
    same = {
        row["op"]
        for row in claims
        if any(row["tp"] == tp and row["first"] <= at < row["next"] for tp, at in held)
    }
    return [
        row
        for row in rows(result, "ops")
        if row["op"] in same
        and row["journal"] != op["journal"]
        and row["outcome"] == "ok"
        and row["return_ns"] < op["return_ns"]
    ]


def copies(result: Result, values: set[str]) -> Counter[str]:
    """How often each of these attempts stands in the log."""
    return Counter(row["value"] for row in rows(result, "records") if row["value"] in values)
