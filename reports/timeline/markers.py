"""Which marker decided which batch, from the leaders' logs."""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.run_tables import RunTables

_BATCHES = (
    *("broker", "tp", "base_offset", "last_offset", "count", "producer_id", "epoch", "transactional"),
    *("control", "marker", "max_timestamp_ms"),
)


def deciding_markers(t: RunTables, tps: Collection[int]) -> pa.Table:
    """Return the batches of data in these partitions, in the order of their offsets.

    Its columns are those of `batches` (`marker` is the type of the marker that decides the batch), and `marker_offset`
    and `marker_ms` of this marker: the first one of the same producer above the batch. All three are null if there is
    none, and for batches outside transactions. Raises `UnreadableInput`.
    """
    table = t.table("batches", _BATCHES, leader=[True], tp=tps).combine_chunks()
    table = table.sort_by([("tp", "ascending"), ("producer_id", "ascending"), ("base_offset", "ascending")])
    tp, producer, control = (
        table[name].to_numpy(zero_copy_only=False) for name in ("tp", "producer_id", "control")
    )
    n = len(table)
    index = np.where(control, np.arange(n), n)
    following = np.minimum.accumulate(index[::-1])[::-1] if n else index
    at = np.minimum(following, max(n - 1, 0))
    decided = (
        (following < n)
        & (tp[at] == tp)
        & (producer[at] == producer)
        & table["transactional"].to_numpy(zero_copy_only=False)
    )
    marker = pa.array(at, mask=~decided)
    with_marker = table.set_column(
        table.schema.get_field_index("marker"), "marker", pc.take(table["marker"], marker)
    )
    with_marker = with_marker.append_column("marker_offset", pc.take(table["base_offset"], marker))
    with_marker = with_marker.append_column("marker_ms", pc.take(table["max_timestamp_ms"], marker))
    data = with_marker.filter(pa.array(~control.astype(bool)))
    return data.sort_by([("tp", "ascending"), ("base_offset", "ascending")])
