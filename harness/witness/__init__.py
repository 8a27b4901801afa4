"""The means to read broker logs, batch by batch.

A `Witness` copies the segment files of every replica, or fetches batches from the leaders. In both cases the result is
a folder like a broker's data folder, so the same code reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.model.pipeline import TopicPartition

FETCHED_FOLDER = "fetched"
"""The folder of fetched batches in the run folder. For each leader it has a folder like the leader's data folder."""


@dataclass(frozen=True)
class LogBounds:
    """The bounds of a partition's log at the end of a run, as the partition's leader reported them."""

    leader: int
    start: int
    high_watermark: int
    topic_id: str = ""


class Witness(Protocol):
    """The means to read the logs of a cluster."""

    @property
    def kind(self) -> str:
        """`segments` for the files of every replica, or `fetch` for batches from the leaders."""
        ...

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The topics whose logs Fencepost may not read, and why. Complete after `collect`."""
        ...

    @property
    def complete_topics(self) -> frozenset[str]:
        """The topics of which every offset between the bounds was read. Compaction removed nothing from them."""
        ...

    def collect(self, bounds: Mapping[TopicPartition, LogBounds], folder: Path) -> None:
        """Write the logs of these partitions into the run folder. Raises `EnvironmentFailure`.

        The cluster must run, and nothing may write to it.
        """
        ...
