"""The names of cycles: the edges of each graph, and the smaller graphs without its cycles.

Each name belongs to the graph with exactly its kinds of edges. A cycle gets the name if it is a strongly connected
component of this graph in which no smaller graph has a cycle. So a name says which edges a cycle needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

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
