"""An invocation and its completion: what was sent stands in both, and must be the same."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.history_files.schema import EVENTS
from harness.model.vocabulary import EventType

OTHER_SENDS = "this completion tells of other sends than its invocation: the keys and values must be the same"


def invocations_with_sends(events: pa.RecordBatch) -> int:
    """How many invocations have sends."""
    lengths = pc.fill_null(pc.list_value_length(events["sends"]), 0)
    invoked = pc.equal(events["type"], EventType.INVOKE.value)
    return pc.sum(pc.and_(invoked, pc.greater(lengths, 0))).as_py() or 0


def without_repeated_sends(events: pa.RecordBatch) -> tuple[pa.RecordBatch, int | None]:
    """The events, of which an invocation has no sends (null) if its completion is here and repeats them; and the
    line of the first completion that tells of others. The sends of a completion that tells none are null already.
    A completion of another kind (`f`) than its invocation is left as it is: the caller reports it.
    """
    types, processes, kinds = (events[name].to_pylist() for name in ("type", "process", "f"))
    sends = events["sends"]
    told = sends.is_valid().to_pylist()
    open_rows: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    for row, (kind, process) in enumerate(zip(types, processes, strict=True)):
        if kind == EventType.INVOKE.value:
            open_rows[process] = row
        elif process in open_rows:
            invoked = open_rows.pop(process)
            if told[row] and kinds[row] == kinds[invoked]:
                pairs.append((invoked, row))
    gone = np.zeros(len(events), bool)
    gone[[invoked for invoked, _ in pairs]] = True
    wrong = _first_that_differs(sends, pairs)
    line = None if wrong is None else events["line"][wrong].as_py()
    null = pc.or_(pa.array(gone), sends.is_null())
    records = sends.flatten().filter(pc.invert(pa.array(gone).take(pc.list_parent_indices(sends))))
    lengths = pc.if_else(null, 0, pc.fill_null(pc.list_value_length(sends), 0)).to_numpy(zero_copy_only=False)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    kept = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), records, mask=null)
    return events.set_column(events.schema.get_field_index("sends"), EVENTS.field("sends"), kept), line


def _first_that_differs(sends: pa.ListArray, pairs: Sequence[tuple[int, int]]) -> int | None:
    """The row of the first completion whose keys and values are not its invocation's, which may name none."""
    if not pairs:
        return None
    invoked, completed = np.array(pairs).T
    starts = sends.offsets.to_numpy()
    lengths = np.diff(starts)
    alike = lengths[invoked] == lengths[completed]
    wrong = completed[~alike & (lengths[invoked] > 0)].tolist()
    one, other = invoked[alike], completed[alike]
    counts = lengths[one]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    here, there = (np.repeat(starts[rows], counts) + within for rows in (one, other))
    differs = np.zeros(len(here), bool)
    for name in ("key", "value"):
        column = sends.values.field(name).to_numpy()
        differs |= column[here] != column[there]
    wrong += np.repeat(other, counts)[differs].tolist()
    return min(wrong, default=None)
