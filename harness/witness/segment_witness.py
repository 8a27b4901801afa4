"""The segment files of every replica, in folders of this machine."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from harness.witness.replicas import Replica, ReplicaSource, find_replicas


class SegmentWitness:
    """A `Witness` of a cluster whose data folders can be read."""

    kind = "segments"

    def __init__(self, sources: Sequence[ReplicaSource]) -> None:
        self.sources = sources

    @property
    def refused(self) -> Mapping[str, str]:
        """Nothing: the files are ours."""
        return {}

    def replicas(self, topics: Collection[str]) -> Iterator[Replica]:
        """Broker after broker."""
        for source in self.sources:
            yield from find_replicas(source, topics)
