"""What was under way during a fault: operations from their call until they returned, or their process was gone."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.history import Outcome
from harness.telling.words import milliseconds, number
from harness.verdict import FaultReport

WORK = ("txn", "send", "commit-offsets")
"""The operations that do a stage's work."""
_COLUMNS = ("journal", "stage", "f", "outcome", "asked", "fenced", "call_ns", "return_ns")
_FOREVER_NS = 2**63 - 1


def with_gone(ops: pa.Table) -> pa.Table:
    """The operations by worker and call, each with `gone_ns`: when it returned; where its process was gone before
    that, when its worker next called something, in this process or in its successor; else the end of time.
    """
    worker = pc.replace_substring_regex(ops["journal"], r"\.[0-9]+$", "")
    ops = ops.append_column("worker", worker).sort_by([("worker", "ascending"), ("call_ns", "ascending")])
    ops = ops.combine_chunks()
    if not len(ops):
        return ops.append_column("gone_ns", pa.array([], pa.int64()))
    by_the_same = pc.equal(ops["worker"][1:], ops["worker"][:-1])
    following = pc.if_else(by_the_same, ops["call_ns"][1:], None)
    next_ns = pa.chunked_array([*following.chunks, pa.nulls(1, pa.int64())], pa.int64())
    return ops.append_column("gone_ns", pc.coalesce(ops["return_ns"], next_ns, _FOREVER_NS))


def between(ops: pa.Table, from_ns: int, to_ns: int) -> pa.Table:
    """Those that were under way then, of operations `with_gone`."""
    return ops.filter(
        pc.and_(pc.less_equal(ops["call_ns"], to_ns), pc.greater_equal(ops["gone_ns"], from_ns))
    )


def told(folder: Path, faults: Iterable[FaultReport]) -> list[str]:
    """For each fault what it met, in words: `6 when it struck; of 412 until it was healed, 3 failed, 2 fenced; the
    longest took 8.2 s`. Empty where no stage kept journals. Raises OSError and ArrowException where they are damaged.
    """
    path = folder / "history" / "ops.parquet"
    if not path.is_file():
        return []
    ops = pq.read_table(path, columns=list(_COLUMNS))
    ours = pc.and_(pc.is_valid(ops["stage"]), pc.is_in(ops["f"], value_set=pa.array(WORK)))
    ops = with_gone(ops.filter(ours))
    return [_told(ops, fault) for fault in faults] if len(ops) else []


def _told(ops: pa.Table, fault: FaultReport) -> str:
    struck_ns = round(fault.start_s * 1e9)
    met = len(between(ops, struck_ns, struck_ns))
    struck = f"{number(met) if met else 'none'} when it struck"
    if fault.end_s is None:
        return struck
    whole = between(ops, struck_ns, max(struck_ns, round(fault.end_s * 1e9)))
    if not len(whole):
        return f"{struck}, none until it was healed"
    fenced = pc.fill_null(whole["fenced"], False)
    on_purpose = pc.fill_null(pc.equal(whole["asked"], "abort"), False)
    failed = pc.and_(pc.equal(whole["outcome"], Outcome.FAIL.value), pc.invert(on_purpose))
    unknown = pc.equal(whole["outcome"], Outcome.INFO.value)
    counts = (
        ("failed", _count(pc.and_(failed, pc.invert(fenced)))),
        ("fenced", _count(fenced)),
        ("left unknown", _count(pc.and_(unknown, pc.invert(fenced)))),
    )
    ended = ", ".join(f"{number(count)} {word}" for word, count in counts if count) or "none failed"
    took_ns = pc.max(pc.subtract(whole["return_ns"], whole["call_ns"])).as_py()
    longest = "" if took_ns is None else f"; the longest took {milliseconds(took_ns / 1e6)}"
    return f"{struck}; of {number(len(whole))} until it was healed, {ended}{longest}"


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(pc.fill_null(mask, False)).as_py() or 0)
