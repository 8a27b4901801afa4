"""The brokers' witness: what their logs hold, batch by batch.

`Witness` is the interface: segment files of every replica of a cluster of ours, or what a leader gives to a Fetch.
Either way it ends in folders as brokers have them, so that whoever reads the logs reads them alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.model.pipeline import TopicPartition

FETCHED_FOLDER = "fetched"
"""In a run's folder: what was fetched from the leaders, a folder for each, as its data folder would be."""


@dataclass(frozen=True)
class LogBounds:
    """A partition's log when the cluster was at rest, as its leader told."""

    leader: int
    start: int
    high_watermark: int
    topic_id: str = ""


class Witness(Protocol):
    """A way to read the logs of a cluster."""

    @property
    def kind(self) -> str:
        """`segments`: the files of every replica; `fetch`: what the leaders give."""
        ...

    @property
    def unreadable(self) -> Mapping[str, str]:
        """By topic: why its log may not be read, and what would help. Known once it was taken."""
        ...

    @property
    def complete_topics(self) -> frozenset[str]:
        """The topics of which no record is missing between the edges, as was seen: nothing was compacted away."""
        ...

    def collect(self, edges: Mapping[TopicPartition, LogBounds], folder: Path) -> None:
        """Bring what these partitions hold into the run's folder, while the cluster is up and at rest.

        Raises `EnvironmentFailure`.
        """
        ...
