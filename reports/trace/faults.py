"""The steps around a fault: the operations that were under way, and those that took the same inputs afterwards."""

import pyarrow.compute as pc

from harness.record.table_reader import Row, RunTables
from harness.results.verdict import FaultReport
from reports.trace.by_journals import operations
from reports.trace.interval import fault_at, faults_on
from reports.trace.protocol import changed_requests
from reports.trace.step import TraceStep, in_order
from reports.under_way import stage_operations, under_way_between

HEALING_NS = 500_000_000
"""An upper bound for the time of a heal. Operations that waited for a response get the response in this time."""
FIRST_MET = 3
"""The number of operations to show if the fault was injected while none was under way."""


def of_fault(t: RunTables, number: int) -> list[TraceStep]:
    """Return the steps of a fault, counted from 1. They are the steps of the operations that were under way during it,
    and of those that took the same inputs afterwards. If the fault is a rule, the steps include the requests that it
    changed.

    Raises `UsageError` if the run has no such fault.
    """
    fault = fault_at(t, number)
    injected_ns = round(fault.start_s * 1e9)
    healed_ns = max(injected_ns, round((fault.end_s or 0.0) * 1e9))
    met_operations = _met_operations(t, fault, injected_ns, healed_ns)
    steps = operations(t, [*met_operations, *_took_over(t, met_operations)])
    by_rule = changed_requests(t, fault.fault, injected_ns, healed_ns)
    return in_order([*steps, *by_rule, *faults_on(t, injected_ns, healed_ns)])


def _met_operations(t: RunTables, fault: FaultReport, injected_ns: int, healed_ns: int) -> list[Row]:
    """Return the operations under way when the fault was injected or about to be healed.

    If the fault names a worker or a transactional id, only its operations count. If the named worker was between
    two operations, the last one that it ended counts. If no operation was under way, the first ones before the
    heal count.
    """
    healing_ns = max(injected_ns, healed_ns - HEALING_NS)
    ops = stage_operations(t.table("ops"))
    under_way: list[Row] = under_way_between(ops, injected_ns, injected_ns).to_pylist()
    worker, transactional_id = fault.details.get("worker"), fault.details.get("transactional_id")
    if worker is not None:
        of_worker = ops.filter(pc.equal(ops["journal"], worker))
        at_first: list[Row] = under_way_between(of_worker, injected_ns, injected_ns).to_pylist()
        before = of_worker.filter(
            pc.less_equal(of_worker["call_ns"], injected_ns)
        )  # in the order of their calls
        first = at_first or before.slice(max(0, len(before) - 1)).to_pylist()
        at_last = under_way_between(of_worker, healing_ns, healing_ns).to_pylist()
        return list({row["op"]: row for row in [*first, *at_last]}.values())
    met = (
        under_way
        or under_way_between(ops, injected_ns, healed_ns).sort_by("call_ns").slice(0, FIRST_MET).to_pylist()
    )
    return [
        row for row in met if transactional_id is not None and row["transactional_id"] == transactional_id
    ] or met


def _took_over(t: RunTables, met_operations: list[Row]) -> list[Row]:
    """Return the operations that took the same inputs afterwards."""
    numbers = {row["op"] for row in met_operations}
    inputs = {
        (record["tp"], record["offset"]) for send in t.rows("sends", op=numbers) for record in send["inputs"]
    }
    since = min((row["call_ns"] for row in met_operations), default=0)
    again = t.operations_from(inputs) - numbers
    return [row for row in t.rows("ops", op=again) if row["call_ns"] >= since]
