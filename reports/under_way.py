"""Find the operations under way during a fault. An operation is under way from its call until it returns or its process
dies.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from harness.common.wording import milliseconds, number
from harness.model.vocabulary import Outcome
from harness.record.table_reader import RunTables
from harness.results.verdict import FaultReport

WORK = ("txn", "send", "commit-offsets")
"""The kinds of operations that do the work of a stage."""
_COLUMNS = ("journal", "stage", "f", "outcome", "asked", "fenced", "call_ns", "return_ns")
_FOREVER_NS = 2**63 - 1
_MOST_S = 9e9


def nanoseconds(time_s: float) -> int | None:
    """Convert seconds since the run began to nanoseconds. None: not finite, or more than 64 bits."""
    return round(time_s * 1e9) if abs(time_s) <= _MOST_S else None  # NaN is below nothing


def stage_operations(ops: pa.Table) -> pa.Table:
    """Return the operations that do the work of stages, ordered by worker and call, with the column `gone_ns`.

    `gone_ns` is the return time. If the operation never returned, it is the time of the next call of its worker, in
    this process or the process that replaced it. If there is no next call, it is the largest possible time.
    """
    ops = ops.filter(pc.is_valid(ops["stage"])).combine_chunks()
    worker = pc.replace_substring_regex(ops["journal"], r"\.[0-9]+$", "")
    ops = ops.append_column("worker", worker).sort_by([("worker", "ascending"), ("call_ns", "ascending")])
    if len(ops):
        by_the_same = pc.equal(ops["worker"][1:], ops["worker"][:-1])
        following = pc.if_else(by_the_same, ops["call_ns"][1:], None)
        next_ns = pa.chunked_array([*following.chunks, pa.nulls(1, pa.int64())], pa.int64())
        gone_ns = pc.coalesce(ops["return_ns"], next_ns, _FOREVER_NS)
    else:
        gone_ns = pa.array([], pa.int64())
    ops = ops.append_column("gone_ns", gone_ns)
    return ops.filter(pc.is_in(ops["f"], value_set=pa.array(WORK)))


def under_way_between(ops: pa.Table, from_ns: int, to_ns: int) -> pa.Table:
    """Return the rows of `stage_operations` that were under way in this interval."""
    return ops.filter(
        pc.and_(pc.less_equal(ops["call_ns"], to_ns), pc.greater_equal(ops["gone_ns"], from_ns))
    )


def describe_met(t: RunTables, faults: Iterable[FaultReport]) -> list[str]:
    """Describe for each fault which operations were under way, for example `6 when it was injected, 4 when it was
    healed; of 408 that ended meanwhile, 3 failed, 2 fenced; the longest took 8.2 s of that time`.

    The text is empty for a fault that did not act. The list is empty if no stage keeps a journal. Raises
    `UnreadableInput` if the table is damaged, and `ArrowException` if a column has another type.
    """
    if not t.exists("ops"):
        return []
    work = stage_operations(t.table("ops", _COLUMNS))
    return [_describe_met(work, fault) for fault in faults] if len(work) else []


def _describe_met(work: pa.Table, fault: FaultReport) -> str:
    injected_ns = nanoseconds(fault.start_s)
    if not fault.acted or injected_ns is None:
        return ""
    met = f"{_or_none(len(under_way_between(work, injected_ns, injected_ns)))} when it was injected"
    healed_ns = None if fault.end_s is None else nanoseconds(fault.end_s)
    if healed_ns is None or healed_ns < injected_ns:
        return met
    met_operations = under_way_between(work, injected_ns, healed_ns)
    if not len(met_operations):
        return f"{met}, none until it was healed"
    ended = met_operations.filter(pc.less_equal(met_operations["gone_ns"], healed_ns))
    left = _or_none(len(met_operations) - len(ended))
    ends = (
        f"of {number(len(ended))} that ended meanwhile, {_ended(ended)}"
        if len(ended)
        else "none ended meanwhile"
    )
    within = pc.subtract(
        pc.min_element_wise(met_operations["gone_ns"], healed_ns),
        pc.max_element_wise(met_operations["call_ns"], injected_ns),
    )
    longest = f"the longest took {milliseconds(pc.max(within).as_py() / 1e6)} of that time"
    return f"{met}, {left} when it was healed; {ends}; {longest}"


def _ended(ops: pa.Table) -> str:
    """Return for example `3 failed, 2 fenced, 1 left unknown`."""
    fenced = pc.fill_null(ops["fenced"], False)
    on_purpose = pc.fill_null(pc.equal(ops["asked"], "abort"), False)
    failed = pc.and_(pc.equal(ops["outcome"], Outcome.FAIL.value), pc.invert(on_purpose))
    unknown = pc.equal(ops["outcome"], Outcome.INFO.value)
    counts = (
        ("failed", _count(pc.and_(failed, pc.invert(fenced)))),
        ("fenced", _count(fenced)),
        ("left unknown", _count(pc.and_(unknown, pc.invert(fenced)))),
    )
    return ", ".join(f"{number(count)} {word}" for word, count in counts if count) or "none failed"


def _or_none(count: int) -> str:
    return number(count) if count else "none"


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(pc.fill_null(mask, False)).as_py() or 0)
