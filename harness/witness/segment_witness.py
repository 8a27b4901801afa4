"""Read the segment files of every replica."""

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.model.pipeline import TopicPartition
from harness.model.promises import SEGMENTS
from harness.witness import LogBounds


class SegmentWitness:
    """A `Witness` of a cluster whose segment files can be read."""

    kind = SEGMENTS
    complete_topics: frozenset[str] = frozenset()  # not known
    unreadable: Mapping[str, str] = {}

    def __init__(self, copy: Callable[[], None] | None = None) -> None:
        """`copy` copies all segment files into the run's folder. None if they are there already."""
        self._copy = copy

    def collect(self, edges: Mapping[TopicPartition, LogBounds], folder: Path) -> None:
        """Copy the files into the run's folder, if necessary. Raises `EnvironmentFailure`."""
        if self._copy is not None:
            self._copy()
