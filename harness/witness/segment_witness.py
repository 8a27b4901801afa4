"""The segment files of every replica, in folders of this machine."""

from collections.abc import Mapping
from pathlib import Path

from harness.promises import SEGMENTS
from harness.witness import Edge, Place


class SegmentWitness:
    """A `Witness` of a cluster whose data folders lie in the run's folder."""

    kind = SEGMENTS
    unbroken: frozenset[str] = frozenset()  # nobody has looked

    @property
    def refused(self) -> Mapping[str, str]:
        """Nothing: the files are ours."""
        return {}

    def take(self, edges: Mapping[Place, Edge], folder: Path) -> None:
        """They are there already."""
