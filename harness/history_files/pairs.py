"""Compare the sends of an invocation and of its completion. They must be equal if both have sends."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.history_files.schema import EVENTS
from harness.model.vocabulary import EventType

OTHER_SENDS = "this completion has other sends than its invocation: keys and values must be equal"


def invocations_with_sends(events: pa.RecordBatch) -> int:
    """Return the number of invocations with sends."""
    lengths = pc.fill_null(pc.list_value_length(events["sends"]), 0)
    invoked = pc.equal(events["type"], EventType.INVOKE.value)
    return pc.sum(pc.and_(invoked, pc.greater(lengths, 0))).as_py() or 0


def without_repeated_sends(events: pa.RecordBatch) -> tuple[pa.RecordBatch, int | None]:
    """Remove the sends of each invocation whose completion is in the same batch and repeats them.

    A completion without sends does not repeat them. If the kind (`f`) of a completion differs from the kind of its
    invocation, the pair is not changed, and the caller reports it.

    Returns:
        The events, and the line of the first completion with other sends than its invocation, or None.
    """
    types, processes, kinds = (events[name].to_pylist() for name in ("type", "process", "f"))
    sends = events["sends"]
    has_sends = sends.is_valid().to_pylist()
    open_rows: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    for row, (kind, process) in enumerate(zip(types, processes, strict=True)):
        if kind == EventType.INVOKE.value:
            open_rows[process] = row
        elif process in open_rows:
            invoked = open_rows.pop(process)
            if has_sends[row] and kinds[row] == kinds[invoked]:
                pairs.append((invoked, row))
    repeated = np.zeros(len(events), bool)
    repeated[[invoked for invoked, _ in pairs]] = True
    wrong = _first_that_differs(sends, pairs)
    line = None if wrong is None else events["line"][wrong].as_py()
    null = pc.or_(pa.array(repeated), sends.is_null())
    records = sends.flatten().filter(pc.invert(pa.array(repeated).take(pc.list_parent_indices(sends))))
    lengths = pc.if_else(null, 0, pc.fill_null(pc.list_value_length(sends), 0)).to_numpy(zero_copy_only=False)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    unrepeated = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), records, mask=null)
    return events.set_column(events.schema.get_field_index("sends"), EVENTS.field("sends"), unrepeated), line


def _first_that_differs(sends: pa.ListArray, pairs: Sequence[tuple[int, int]]) -> int | None:
    """Return the row of the first completion with other keys or values than its invocation, or None.

    An invocation without sends is not compared.
    """
    if not pairs:
        return None
    invoked, completed = np.array(pairs).T
    starts = sends.offsets.to_numpy()
    lengths = np.diff(starts)
    alike = lengths[invoked] == lengths[completed]
    wrong = completed[~alike & (lengths[invoked] > 0)].tolist()
    invocations, completions = invoked[alike], completed[alike]
    counts = lengths[invocations]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    left, right = (np.repeat(starts[rows], counts) + within for rows in (invocations, completions))
    differs = np.zeros(len(left), bool)
    for name in ("key", "value"):
        column = sends.values.field(name).to_numpy()
        differs |= column[left] != column[right]
    wrong += np.repeat(completions, counts)[differs].tolist()
    return min(wrong, default=None)
