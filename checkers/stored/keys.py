"""Grouping the rows of a large run without its number, and places as one number where they fit in one.

Spark sorts by one number without looking at the rows; by several columns it compares rows, which takes a tenth of the
time of all checks of a large run. Where one run is judged, every row has the same `run`, and its partitions are few:
what is left of 64 bits is more than any offset needs. That it is so is known of the recorded tables, by the footers of
their files (`checkers.stored.extents`); what is computed of them names no other places. Where several runs are judged
together, where nobody knows, or where all rows go through one task, rows are grouped as they are.
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
BITS_OF_TPS = (8, 16, 32)
"""For the numbers of partitions. They are few, for what Spark compiles holds them: runs of a session share it."""
SENT_ROWS = 500_000
"""A table with a row for each operation is sent to every task, if it has at most so many."""


def by_operation(s: Sources, frame: DataFrame) -> DataFrame:
    """A table with a row for each recorded operation at most, to be joined by equal keys: sent to every task if those
    are few; else, and where nobody knows, Spark decides.
    """
    rows = rows_of(s["ops"])
    return together(frame) if rows is None or rows > SENT_ROWS else beside(frame)


def grouped(s: Sources, frame: DataFrame, keys: Sequence[str], told: Sequence[str]) -> DataFrame:
    """As `gathered`, and aggregated: the keys, and what is told of each group. The first key is `run`: where one run
    alone is there it is left out, and put back.
    """
    known = None if in_one(frame.sparkSession) else extent_of(s)
    if known is None:
        return gathered(frame, *keys).agg(*map(F.expr, told))
    rest = back = [key for key in keys if key != "run"]
    if tuple(keys) == PLACE and (packing := packing_of(known)):
        others = [column for column in frame.columns if column not in rest]
        frame, back, rest = frame.selectExpr(packing.place, *others), list(packing.back), ["place"]
    # A constant would be its number in what Spark compiles, anew for each run, and no key of a join.
    found = gathered(frame, *rest).agg(*map(F.expr, ("any_value(run) as run", *told)))
    return found.selectExpr("run", *back, *(one for one in found.columns if one not in ("run", *rest)))


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
    wide = next(bits for bits in BITS_OF_TPS if most + 1 < 1 << bits)
    packing = Packing(BITS - wide, (1 << wide) - 1)
    room = 1 << (packing.bits - 1)
    return packing if least >= 0 and -room < known.offsets[0] and known.offsets[1] < room else None
