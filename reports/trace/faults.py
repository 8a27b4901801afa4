"""The steps around a fault: whom it struck, in what, and who went on with that."""

from harness.errors import UsageError
from harness.telling.words import several
from harness.verdict import FaultReport
from reports.trace.steps import Step, in_order, operations
from reports.trace.stored import Row, StoredTables


def of_fault(t: StoredTables, number: int) -> list[Step]:
    """A fault, counted from 1: the operations in which it struck, those that then took the same inputs, and what
    became of them all. Raises `UsageError` where the run has no such fault.
    """
    faults = t.facts.faults
    if not 1 <= number <= len(faults):
        raise UsageError(f"the run has no fault {number}: it has {several(len(faults), 'fault')}")
    struck = _struck(t, faults[number - 1])
    return in_order(operations(t, [*struck, *_gone_on(t, struck)]))


def _struck(t: StoredTables, fault: FaultReport) -> list[Row]:
    """What was under way when it struck: of the worker or of the id that it names, if it names one.

    Where a worker that it names stood between two operations, the one that it had just ended.
    """
    struck_ns = round(fault.start_s * 1e9)
    begun: list[Row] = [
        row
        for row in t.rows("ops", f=["txn", "send", "commit-offsets"])
        if row["stage"] is not None and row["call_ns"] <= struck_ns
    ]
    under_way: list[Row] = [row for row in begun if row["return_ns"] is None or row["return_ns"] >= struck_ns]
    worker, own = fault.details.get("worker"), fault.details.get("transactional_id")
    if worker is not None:
        mine = [row for row in begun if row["journal"] == worker]
        last: list[Row] = sorted(mine, key=lambda row: int(row["call_ns"]))[-1:]
        return [row for row in under_way if row["journal"] == worker] or last
    return [row for row in under_way if own is not None and row["transactional_id"] == own] or under_way


def _gone_on(t: StoredTables, struck: list[Row]) -> list[Row]:
    """The operations that took the same inputs afterwards."""
    numbers = {row["op"] for row in struck}
    inputs = {(one["tp"], one["offset"]) for send in t.rows("sends", op=numbers) for one in send["inputs"]}
    since = min((row["call_ns"] for row in struck), default=0)
    again = t.taking(inputs) - numbers
    return [row for row in t.rows("ops", op=again) if row["call_ns"] >= since]
