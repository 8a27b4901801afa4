"""Which marker decided which batch, from the leaders' logs."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.record.table_reader import RunTables

_BATCHES = (
    *("broker", "tp", "base_offset", "last_offset", "count", "producer_id", "epoch", "transactional"),
    *("control", "marker", "max_timestamp_ms", "coordinator_epoch"),
)


def deciding_markers(t: RunTables, tps: Collection[int]) -> pa.Table:
    """Return the batches of data in these partitions, in the order of their offsets.

    Its columns are those of `batches`, where `marker` and `coordinator_epoch` are those of the marker that decides the
    batch, and `marker_offset` and `marker_ms` of this marker: the first one of the same producer above the batch. All
    four are null if there is none, and for batches outside transactions. Raises `UnreadableInput`.
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
    epoch = with_marker.schema.get_field_index("coordinator_epoch")
    with_marker = with_marker.set_column(
        epoch, "coordinator_epoch", pc.take(table["coordinator_epoch"], marker)
    )
    with_marker = with_marker.append_column("marker_offset", pc.take(table["base_offset"], marker))
    with_marker = with_marker.append_column("marker_ms", pc.take(table["max_timestamp_ms"], marker))
    data = with_marker.filter(pa.array(~control.astype(bool)))
    return data.sort_by([("tp", "ascending"), ("base_offset", "ascending")])


def batches_of(t: RunTables, positions: Iterable[tuple[int, int]]) -> dict[tuple[int, int], dict[str, Any]]:
    """Return for each position (`tp`, offset) the batch that holds it, with the marker that decides the batch.

    A position whose log is not stored is left out.
    """
    wanted: dict[int, set[int]] = {}
    for tp, offset in positions:
        wanted.setdefault(tp, set()).add(offset)
    if not wanted or not t.exists("batches"):
        return {}
    table = deciding_markers(t, wanted.keys())
    found = {}
    for tp, offsets in wanted.items():
        near = pc.and_(
            pc.equal(table["tp"], tp),
            pc.and_(
                pc.less_equal(table["base_offset"], max(offsets)),
                pc.greater_equal(table["last_offset"], min(offsets)),
            ),
        )
        rows = table.filter(near).to_pylist()
        for offset in offsets:
            row = next((row for row in rows if row["base_offset"] <= offset <= row["last_offset"]), None)
            if row is not None:
                found[tp, offset] = row
    return found
