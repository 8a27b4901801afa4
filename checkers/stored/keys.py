"""Grouping the rows of a large run by their keys, as one number where they fit in one.

Spark sorts by one number without looking at the rows; by several columns it compares rows, which takes a tenth of the
time of all checks of a large run. Where one run is judged, every row has the same `run`, and its partitions are few:
what is left of 64 bits is more than any offset needs. That it is so is known of the recorded tables, by the footers of
their files (`checkers.stored.extents`); what is computed of them names no other places. Where several runs are judged
together, or nobody knows, rows are grouped as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.gather import beside, gathered, together
from checkers.spark.partitions import in_one
from checkers.stored.extents import Extent
from checkers.stored.sources import Sources, extent_of, rows_of

PLACE = ("run", "tp", "offset")
BITS = 63
"""Of one number, without its sign."""
SENT_ROWS = 500_000
"""A table with a row for each operation is sent to every task, if it has at most so many."""


def by_operation(s: Sources, frame: DataFrame) -> DataFrame:
    """A table with a row for each operation at most, to be joined by equal keys."""
    rows = rows_of(s["ops"])
    return together(frame) if rows is None or rows > SENT_ROWS else beside(frame)


def grouped(s: Sources, frame: DataFrame, keys: Sequence[str], told: Sequence[str]) -> DataFrame:
    """As `gathered`, and aggregated: the keys, of which `run` is the first, and what is told of each group."""
    known = None if in_one(frame.sparkSession) else extent_of(s)
    if known is None:
        return gathered(frame, *keys).agg(*map(F.expr, told))
    rest = [key for key in keys if key != "run"]
    back = list(rest)
    if tuple(keys) == PLACE and (packing := packing_of(known)):
        others = [column for column in frame.columns if column not in keys]
        frame, back, rest = frame.selectExpr(packing.place, *others), list(packing.back), ["place"]
    found = gathered(frame, *rest).agg(*map(F.expr, told))
    return found.selectExpr(f"{known.run}L as run", *back, *(one for one in found.columns if one not in rest))


@dataclass(frozen=True)
class Packing:
    """How a partition and an offset are one number, `place`, whose order is theirs: the partition stands above so many
    `bits`, which have the offset and its sign. A null stands as a number that is no other's.
    """

    bits: int
    no_tp: int

    @property
    def place(self) -> str:
        """In SQL, of the columns tp and offset."""
        tp = f"shiftleft(cast(coalesce(tp, {self.no_tp}) as bigint), {self.bits})"
        return f"{tp} + coalesce(offset, {self._no_offset}) as place"

    @property
    def back(self) -> tuple[str, str]:
        """The columns tp and offset, in SQL, of the column place."""
        up = 64 - self.bits
        offset = f"shiftright(shiftleft(place, {up}), {up})"
        return (
            f"cast(nullif(shiftright(place - {offset}, {self.bits}), {self.no_tp}) as int) as tp",
            f"nullif({offset}, {self._no_offset}) as offset",
        )

    @property
    def _no_offset(self) -> str:
        return f"(-{1 << (self.bits - 1)}L)"


def packing_of(known: Extent) -> Packing | None:
    """One in which every place of a run fits; None: there is none, or nobody knows."""
    if known.tps is None or known.offsets is None:
        return None
    least, most = known.tps
    packing = Packing(BITS - (most + 1).bit_length(), most + 1)
    room = 1 << (packing.bits - 1) if packing.bits > 0 else 0
    return packing if least >= 0 and -room < known.offsets[0] and known.offsets[1] < room else None
