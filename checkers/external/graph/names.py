"""The names of cycles: which edges a graph has, and which smaller graphs have none of its cycles.

Each name is decided on the graph of exactly its own edges: it is a strongly connected component of that
graph in which no smaller graph has a cycle. So a name says what a cycle needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

WR, WW, RW, PROCESS, REALTIME = range(5)
WORDS = {WR: "wr", WW: "ww", RW: "rw", PROCESS: "process", REALTIME: "realtime"}


@dataclass(frozen=True)
class CycleKind:
    """A graph with a name: the kinds of its edges."""

    name: str
    kinds: frozenset[int]
    single: bool | None = None  # of cycles with rw edges: whether one of them suffices

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
"""Every name, plainer ones first."""

BAD = frozenset({"G1c", "G1c-process", "G1c-realtime"})
"""Nobody can read what is not yet committed in a circle, or before it was sent: never allowed."""
