"""The steps around a fault: whom it struck, in what, and who went on with that."""

import pyarrow.compute as pc

from harness.common.errors import UnreadableInput, UsageError
from harness.results.verdict import FaultReport
from harness.results.wording import plural
from reports.trace.step import TraceStep, in_order
from reports.trace.steps import faults_on, operations
from reports.trace.stored import Row, StoredTables
from reports.under_way import nanoseconds, stage_operations, under_way_between

HEALING_NS = 500_000_000
"""What a heal takes, at most: whoever could not be answered is answered from then on."""
FIRST_MET = 3
"""Operations that are told of a fault that struck between all of them."""


def of_fault(t: StoredTables, number: int) -> list[TraceStep]:
    """A fault, counted from 1: the operations in which it struck, or the first that it met; those that then took the
    same inputs; and what became of them all. Raises `UsageError` where the run has no such fault.
    """
    fault = fault_at(t, number)
    injected_ns = round(fault.start_s * 1e9)
    healed_ns = max(injected_ns, round((fault.end_s or 0.0) * 1e9))
    struck = _struck(t, fault, injected_ns, healed_ns)
    steps = operations(t, [*struck, *_gone_on(t, struck)])
    return in_order([*steps, *faults_on(t, injected_ns, healed_ns)])


def fault_at(t: StoredTables, number: int) -> FaultReport:
    """A fault, counted from 1. Raises `UsageError`, and `UnreadableInput` where its times are none."""
    faults = t.metadata.faults
    if not 1 <= number <= len(faults):
        raise UsageError(f"the run has no fault {number}: it has {plural(len(faults), 'fault')}")
    fault = faults[number - 1]
    if None in (nanoseconds(fault.start_s), nanoseconds(fault.end_s or 0.0)):
        raise UnreadableInput(
            f"metadata.json says of fault {number} that it lasted from {fault.start_s} to {fault.end_s} s"
        )
    return fault


def _struck(t: StoredTables, fault: FaultReport, injected_ns: int, healed_ns: int) -> list[Row]:
    """What was under way when it struck, or when it was about to be healed: of the worker or of the id that it names,
    if it names one. Where a worker that it names stood between two operations, the one that it had just ended; where
    nobody had one under way, the first that were begun before it was healed.
    """
    healing_ns = max(injected_ns, healed_ns - HEALING_NS)
    found = t.table("ops", None)
    if found is None:
        return []
    ops = stage_operations(found)
    under_way: list[Row] = under_way_between(ops, injected_ns, injected_ns).to_pylist()
    worker, own = fault.details.get("worker"), fault.details.get("transactional_id")
    if worker is not None:
        mine = ops.filter(pc.equal(ops["journal"], worker))
        at_first: list[Row] = under_way_between(mine, injected_ns, injected_ns).to_pylist()
        before = mine.filter(pc.less_equal(mine["call_ns"], injected_ns))  # in the order of their calls
        first = at_first or before.slice(max(0, len(before) - 1)).to_pylist()
        at_last = under_way_between(mine, healing_ns, healing_ns).to_pylist()
        return list({row["op"]: row for row in [*first, *at_last]}.values())
    met = (
        under_way
        or under_way_between(ops, injected_ns, healed_ns).sort_by("call_ns").slice(0, FIRST_MET).to_pylist()
    )
    return [row for row in met if own is not None and row["transactional_id"] == own] or met


def _gone_on(t: StoredTables, struck: list[Row]) -> list[Row]:
    """The operations that took the same inputs afterwards."""
    numbers = {row["op"] for row in struck}
    inputs = {(one["tp"], one["offset"]) for send in t.rows("sends", op=numbers) for one in send["inputs"]}
    since = min((row["call_ns"] for row in struck), default=0)
    again = t.operations_from(inputs) - numbers
    return [row for row in t.rows("ops", op=again) if row["call_ns"] >= since]
