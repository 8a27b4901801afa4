"""Read the segment files of every replica."""

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.model.pipeline import TopicPartition
from harness.model.promises import SEGMENTS
from harness.witness import LogBounds


class SegmentWitness:
    """A `Witness` of a cluster whose segment files can be read."""

    kind = SEGMENTS
    complete_topics: frozenset[str] = frozenset()  # empty, because this is not known
    unreadable: Mapping[str, str] = {}

    def __init__(self, copy: Callable[[], None] | None = None) -> None:
        """Keep `copy`, which copies all segment files into the run folder. None if they are already in it."""
        self._copy = copy

    def collect(self, bounds: Mapping[TopicPartition, LogBounds], folder: Path) -> None:
        """Copy the files into the run folder, if necessary. Raises `EnvironmentFailure`."""
        if self._copy is not None:
            self._copy()
