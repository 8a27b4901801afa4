"""The edges of the dependency graph, from a pack of versions and their readers.

An edge leads from an operation to one that depends on it, through a record of the pack:

`wr`   src wrote the record, and dst read it
`ww`   src wrote the record, and dst the following one in the version order
`rw`   src read the record, its last of the key, and dst wrote the following one: src had not seen it

Readers and writers of every outcome count, as in Jepsen's checker. An operation that never completed counts as
`info` if something was read of it. Process and realtime edges follow from the operations themselves
(`checkers.external.graph.components`).
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from checkers.external.by_key.version_log import FOLLOWED, Pack
from checkers.external.graph.names import RW, WR, WW


@dataclass(frozen=True)
class Edges:
    """Edges of one kind between lines (see `checkers.external.by_key.version_log`), with their records."""

    src: np.ndarray
    dst: np.ndarray
    record: np.ndarray

    def __getitem__(self, chosen: np.ndarray) -> "Edges":
        return Edges(self.src[chosen], self.dst[chosen], self.record[chosen])


def edges_of(pack: Pack, kinds: Collection[int] = (WR, WW, RW)) -> dict[int, Edges]:
    """Return the edges by kind, without edges from an operation to itself."""
    makers = {WR: _wr, WW: _ww, RW: _rw}
    made = {kind: makers[kind](pack) for kind in kinds}
    return {kind: edges[edges.src != edges.dst] for kind, edges in made.items()}


def _wr(pack: Pack) -> Edges:
    written = pack.writer[pack.record] >= 0
    record = pack.record[written]
    return Edges(pack.writer[record], pack.reader[written], record)


def _ww(pack: Pack) -> Edges:
    record = np.flatnonzero(((pack.flags & FOLLOWED) != 0) & (pack.writer >= 0))
    return Edges(pack.writer[record], pack.writer[record + 1], record)


def _rw(pack: Pack) -> Edges:
    reads = np.flatnonzero(pack.last & ((pack.flags[pack.record] & FOLLOWED) != 0))
    record = pack.record[reads]
    return Edges(pack.reader[reads], pack.writer[record + 1], record)
