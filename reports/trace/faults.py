"""The steps around a fault: whom it struck, in what, and who went on with that."""

import pyarrow.compute as pc

from harness.errors import UsageError
from harness.telling.words import several
from harness.verdict import FaultReport
from reports.trace.steps import Step, in_order, operations
from reports.trace.stored import Row, StoredTables
from reports.under_way import WORK, between, with_gone

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
    found = t.table("ops", f=WORK)
    if found is None:
        return []
    ops = with_gone(found.filter(pc.is_valid(found["stage"])))
    under_way: list[Row] = between(ops, struck_ns, struck_ns).to_pylist()
    worker, own = fault.details.get("worker"), fault.details.get("transactional_id")
    if worker is not None:
        mine = ops.filter(pc.equal(ops["journal"], worker))
        at_first: list[Row] = between(mine, struck_ns, struck_ns).to_pylist()
        before = mine.filter(pc.less_equal(mine["call_ns"], struck_ns))  # in the order of their calls
        first = at_first or before.slice(max(0, len(before) - 1)).to_pylist()
        at_last = between(mine, healing_ns, healing_ns).to_pylist()
        return list({row["op"]: row for row in [*first, *at_last]}.values())
    return [row for row in under_way if own is not None and row["transactional_id"] == own] or under_way


def _gone_on(t: StoredTables, struck: list[Row]) -> list[Row]:
    """The operations that took the same inputs afterwards."""
    numbers = {row["op"] for row in struck}
    inputs = {(one["tp"], one["offset"]) for send in t.rows("sends", op=numbers) for one in send["inputs"]}
    since = min((row["call_ns"] for row in struck), default=0)
    again = t.taking(inputs) - numbers
    return [row for row in t.rows("ops", op=again) if row["call_ns"] >= since]
