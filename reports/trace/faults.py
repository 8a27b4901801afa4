"""The steps around a fault: whom it struck, in what, and who went on with that."""

from collections.abc import Iterable

from harness.errors import UsageError
from harness.telling.words import several
from harness.verdict import FaultReport
from reports.trace.steps import Step, in_order, operations
from reports.trace.stored import Row, StoredTables

HEALING_NS = 500_000_000
"""What a heal takes, at most: whoever could not be answered is answered from then on."""


def of_fault(t: StoredTables, number: int) -> list[Step]:
    """A fault, counted from 1: the operations in which it struck, those that then took the same inputs, and what
    became of them all. Raises `UsageError` where the run has no such fault.
    """
    struck = _struck(t, fault_at(t, number))
    return in_order(operations(t, [*struck, *_gone_on(t, struck)]))


def fault_at(t: StoredTables, number: int) -> FaultReport:
    """A fault, counted from 1. Raises `UsageError`."""
    faults = t.facts.faults
    if not 1 <= number <= len(faults):
        raise UsageError(f"the run has no fault {number}: it has {several(len(faults), 'fault')}")
    return faults[number - 1]


def _struck(t: StoredTables, fault: FaultReport) -> list[Row]:
    """What was under way when it struck, or when it was about to be healed: of the worker or of the id that it names,
    if it names one. Where a worker that it names stood between two operations, the one that it had just ended.
    """
    struck_ns = round(fault.start_s * 1e9)
    healing_ns = max(struck_ns, round((fault.end_s or 0.0) * 1e9) - HEALING_NS)
    ops: list[Row] = [
        row for row in t.rows("ops", f=["txn", "send", "commit-offsets"]) if row["stage"] is not None
    ]
    under_way = _at(ops, struck_ns)
    worker, own = fault.details.get("worker"), fault.details.get("transactional_id")
    if worker is not None:
        mine = [row for row in ops if row["journal"] == worker]
        before = sorted((row for row in mine if row["call_ns"] <= struck_ns), key=_called)
        first = _at(mine, struck_ns) or before[-1:]
        return list({row["op"]: row for row in [*first, *_at(mine, healing_ns)]}.values())
    return [row for row in under_way if own is not None and row["transactional_id"] == own] or under_way


def _at(ops: Iterable[Row], time_ns: int) -> list[Row]:
    """Those that were under way then."""
    return [
        row
        for row in ops
        if row["call_ns"] <= time_ns and (row["return_ns"] is None or row["return_ns"] >= time_ns)
    ]


def _called(row: Row) -> int:
    return int(row["call_ns"])


def _gone_on(t: StoredTables, struck: list[Row]) -> list[Row]:
    """The operations that took the same inputs afterwards."""
    numbers = {row["op"] for row in struck}
    inputs = {(one["tp"], one["offset"]) for send in t.rows("sends", op=numbers) for one in send["inputs"]}
    since = min((row["call_ns"] for row in struck), default=0)
    again = t.taking(inputs) - numbers
    return [row for row in t.rows("ops", op=again) if row["call_ns"] >= since]
