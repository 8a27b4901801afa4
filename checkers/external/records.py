"""Look up records in packs after the findings are known."""

from collections.abc import Callable, Set

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external.by_key.version_log import FOLLOWED, LINES, READ, Pack, read_packs
from checkers.external.table import Batches
from checkers.spark.checkpoint import checkpoint

SIBLINGS = "run bigint, op bigint, key bigint, value bigint, offset bigint"
RECORDS = (
    "reference bigint, record struct<key: bigint, value: bigint, offset: bigint>, "
    "following struct<key: bigint, value: bigint, offset: bigint>"
)
LOST = "due and not ok_read and highest <= bound"
"""The condition for a lost record: ok reads passed it, and its writer must have committed."""


def make_siblings(steps: DataFrame, packs: DataFrame) -> DataFrame:
    """Return the ok-read records of operations that have a lost record. Such operations are few, or the history is
    clearly invalid.
    """
    lost = steps.where("first").where(LOST).select(F.expr(f"run * {LINES} + writer").alias("writer"))
    writers = np.unique(lost.toArrow()["writer"].to_numpy())
    if not len(writers):
        return packs.sparkSession.createDataFrame([], SIBLINGS)
    return checkpoint(packs.mapInArrow(_written_by(writers), SIBLINGS))


def _written_by(writers: np.ndarray) -> Callable[[Batches], Batches]:
    def select(batches: Batches) -> Batches:
        for _, pack in read_packs(batches):
            at = np.flatnonzero(((pack.flags & READ) != 0) & np.isin(pack.writer, writers))
            line = pack.writer[at]
            yield pa.RecordBatch.from_pydict({"run": line // LINES, "op": line % LINES} | _records(pack, at))

    return select


def _records(pack: Pack, at: np.ndarray) -> dict[str, np.ndarray | pa.Array]:
    """Return records of a pack as arrays; the offset is null if it is not known."""
    offset = pack.offset[at]
    return {"key": pack.key[at], "value": pack.value[at], "offset": pa.array(offset, mask=offset < 0)}


def records_of(packs: DataFrame, references: Set[int]) -> dict[int, dict[str, dict[str, int | None]]]:
    """Return by reference the records of edges: `record`, and `following`, the next version.

    If a record has no next version, `following` is the record itself. Each has key, value and offset.
    """
    if not references:
        return {}
    wanted = np.array(sorted(references), np.int64)

    def look_up(batches: Batches) -> Batches:
        for number, pack in read_packs(batches):
            references_of_pack = wanted[wanted >> 32 == number]
            at = references_of_pack & 0xFFFFFFFF
            followed = (pack.flags[at] & FOLLOWED) != 0
            pair = (_records(pack, rows_of_pack) for rows_of_pack in (at, np.where(followed, at + 1, at)))
            record_struct, following_struct = (
                pa.StructArray.from_arrays(list(map(pa.array, r.values())), list(r)) for r in pair
            )
            yield pa.RecordBatch.from_pydict(
                {"reference": references_of_pack, "record": record_struct, "following": following_struct}
            )

    rows = packs.mapInArrow(look_up, RECORDS).toArrow().to_pylist()
    return {row.pop("reference"): row for row in rows}
