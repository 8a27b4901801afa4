"""The shared tables of external histories that checkers see, and the names of cycles.

`checkers.histories` makes the tables. This module imports neither PySpark nor PyArrow, because the registry of checkers
imports it.

A cycle is named by the edges of a graph, and by the smaller graphs without its cycles. Each name belongs to the graph
with exactly its kinds of edges. A cycle gets the name if it is a strongly connected component of this graph in which no
smaller graph has a cycle. So a name says which edges a cycle needs.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pyspark.sql import DataFrame

WR, WW, RW, PROCESS, REALTIME = range(5)
WORDS = {WR: "wr", WW: "ww", RW: "rw", PROCESS: "process", REALTIME: "realtime"}


@dataclass(frozen=True)
class CycleKind:
    """A named graph: the kinds of its edges."""

    name: str
    kinds: frozenset[int]
    single: bool | None = None  # for cycles with rw edges: true if one rw edge suffices

    @property
    def smaller(self) -> "Iterator[CycleKind]":
        """The graphs with fewer kinds of edges."""
        return (graph for graph in GRAPHS if graph.kinds < self.kinds)


_BASES = (
    ("G0", {WW}, None),
    ("G1c", {WR}, None),
    ("G1c-ww", {WW, WR}, None),
    ("G-single", {WW, WR, RW}, True),
    ("G2", {WW, WR, RW}, False),
)
_ORDERS = (("", None), ("-process", PROCESS), ("-realtime", REALTIME))
GRAPHS = tuple(
    CycleKind(name + suffix, frozenset(kinds | ({order} if order is not None else set())), single)
    for name, kinds, single in _BASES
    for suffix, order in _ORDERS
)
"""Every name, with simpler graphs first."""

BAD = frozenset({"G1c", "G1c-process", "G1c-realtime"})
"""These are never allowed. In a correct cluster, transactions cannot read each other's uncommitted records in a cycle,
and cannot read a record before it was sent.
"""

SKIPS = "index > before + 1"
BACK = "index < before + 1"
LOST = "due and not ok_read and highest <= bound"
"""The condition for a lost record: ok reads passed it, and its writer must have committed."""
VALUE_COLUMNS = (
    "run", "key", "value", "lowest_offset", "lowest", "highest", "index", "bound", "writer",
    "writer_outcome", "due", "ok_read", "ok_sent", "passer", "passer_value", "passer_offset",
)  # fmt: skip


@dataclass(frozen=True)
class Cycles:
    """The components, and where a graph could not be checked in full."""

    components: "DataFrame"  # `FINDING`: one row for each component
    too_large: Mapping[int, frozenset[int]]  # by run: the kinds of edges that were left out of an interval


@dataclass(frozen=True)
class ExternalTables:
    """The shared tables. The components are computed in the background: reading them waits.

    Columns of `steps`, which has one row for each micro-operation whose record is not ordinary (see
    `checkers.histories.by_key`), or that read, as committed, a record that its own operation sent:
        run, key, value, offset, op, n, process, polled, outcome
        rank: of its offset
        clash: another value has its offset
        own: its operation sent the record
        lowest, highest, index, lowest_offset, writer, writer_outcome: of its record
        due: the writer of its record must have committed
        ok_read, ok_sent: an ok operation received or sent its record
        first: true in one row of each record
        bound: the highest index of its key that was ok-read (for a record at several offsets, its first)
        passer, passer_value, passer_offset: the read that got farthest in its key, only for records that are due and
            not ok-read

    Columns of `jumps`:
        run, key, process, op, n, value, offset, index, outcome, polled
        op_before, value_before, offset_before, before: of the step before; `before` is its index
        lost_writer: if all records between them are lost, the writer of the first
        inside: both belong to one operation
        forgotten: the process assigned or subscribed to other keys between the two operations
        rebalanced: a rebalance took or gave the key during the operation

    Columns of the other tables:
        siblings: run, op, key, value: the ok-read records of every operation that has a lost record
        components: see `Cycles`
        counted: run, records, read, in_place_of_another
        packs: see `checkers.histories.packs`
        uncommitted: run, op: the operations that read uncommitted records
    """

    suffix: ClassVar = "_external"
    """The suffix of checker functions that use these tables."""

    steps: "DataFrame"
    counted: "DataFrame"
    jumps: "DataFrame"
    siblings: "DataFrame"
    uncommitted: "DataFrame"
    packs: Any  # only `checkers.histories` reads them
    made_cycles: "Future[Cycles]"

    @property
    def components(self) -> "DataFrame":
        """The named components of the dependency graph."""
        return self.made_cycles.result().components

    @property
    def too_large(self) -> Mapping[int, Set[int]]:
        """By run, the kinds of edges that `components` lacks in part."""
        return self.made_cycles.result().too_large

    @property
    def attempts(self) -> "DataFrame":
        """One row for each record of `steps`: the columns that all its rows share."""
        return self.steps.where("first").select(*VALUE_COLUMNS)

    @property
    def reads(self) -> "DataFrame":
        """The steps that read a record."""
        return self.steps.where("polled")
