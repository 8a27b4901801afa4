"""The edges of the dependency graph, from a pack of versions and their readers.

An edge leads from an operation to one that depends on it, through a record of the pack:

`wr`   src wrote the record, and dst read it
`ww`   src wrote the record, and dst wrote the following record in the version order
`rw`   src read the record as its last one of the key, and dst wrote the following record, which src did not read

Readers and writers with any outcome count, as in Jepsen's checker. An operation that never completed counts as `info`
if one of its records was read. Process and realtime edges follow from the operations themselves
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

    def __getitem__(self, rows: np.ndarray) -> "Edges":
        return Edges(self.src[rows], self.dst[rows], self.record[rows])


def edges_of(pack: Pack, kinds: Collection[int] = (WR, WW, RW)) -> dict[int, Edges]:
    """Return the edges by kind, without edges from an operation to itself."""
    makers = {WR: _wr, WW: _ww, RW: _rw}
    by_kind = {kind: makers[kind](pack) for kind in kinds}
    return {kind: edges[edges.src != edges.dst] for kind, edges in by_kind.items()}


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
