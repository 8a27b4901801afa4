"""How a run knows that nothing is left to do, and marks where its logs end."""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from harness.cluster import Cluster
from harness.common.errors import WaitTimeout
from harness.databases.backlog import Backlog, no_backlog
from harness.model.pipeline import StageSpec, TopicPartition
from harness.model.vocabulary import OffsetTracking
from harness.roles.end_offsets import count_unread, write_sentinels

COUNTED_BELOW = 5_000
"""Above it the offsets that lie between stand for the inputs that are left: some of them are markers."""
MARK_TIMEOUT_S = 30.0


class EndMarkers(Protocol):
    """What is left of a stage's inputs, and the end of everything."""

    def inputs_left(self, stage: StageSpec, starting: bool = False) -> int | None:
        """How many visible inputs no commit has reached; None: nobody can say now. `starting`: one of its workers is
        not ready yet.
        """
        ...

    def outputs_written(self, stage: StageSpec) -> int:
        """How much it has written, where that alone tells how far it is; else 0."""
        ...

    def open_transactions(self, topics: Sequence[str], groups: Sequence[str]) -> list[str]:
        """The partitions of these topics, or of these groups' offsets, in which a transaction is open."""
        ...

    def resolve_ends(self, places: Sequence[TopicPartition]) -> None:
        """Find out where each partition ends, where no record is to say so. Raises `WaitTimeout`."""
        ...

    def mark_ends(self, places: Sequence[TopicPartition]) -> None:
        """Write the record that says so, where there is to be one: final readers may be on their way. Raises
        `WaitTimeout`.
        """
        ...

    @property
    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """Where each partition ends, once that is settled; empty: a record says so."""
        ...


class SentinelEndMarkers:
    """An `EndMarkers` of a pipeline of ours: a record of the run's own stands behind everything."""

    end_offsets: Mapping[TopicPartition, int] = {}

    def __init__(self, cluster: Cluster, backlog: Backlog = no_backlog) -> None:
        self._cluster = cluster
        self._backlog = backlog

    def inputs_left(self, stage: StageSpec, starting: bool = False) -> int | None:
        """What its group has not committed, the exact number once it is small; or what its store has left."""
        if stage.offset_tracking is OffsetTracking.EACH:
            counts = [self._backlog(table, None) for table in stage.reads]
            return None if None in counts else sum(count or 0 for count in counts)
        if stage.group is None:
            return 0  # no group tells how far it is
        try:
            committed = self._cluster.committed_offsets(stage.group)
            ends = self._cluster.log_offsets(self._taken(stage, committed))
            if any(stable < high for _, stable, high in ends.values()):
                return None  # what is not committed yet may still become an input
            behind = _behind(committed, ends)
            between = sum(ends[place][1] - position for place, position in behind.items())
            return between if between >= COUNTED_BELOW else count_unread(self._cluster.bootstrap, behind)
        except WaitTimeout:
            return None

    def outputs_written(self, stage: StageSpec) -> int:
        """Nothing: offsets or journals tell."""
        return 0

    @staticmethod
    def _taken(stage: StageSpec, committed: Mapping[TopicPartition, int]) -> Sequence[str]:
        """The topics that its group takes inputs from."""
        return stage.reads

    def open_transactions(self, topics: Sequence[str], groups: Sequence[str]) -> list[str]:
        """Where the last stable offset lies below the high watermark."""
        ends = dict(self._cluster.log_offsets(topics))
        kept = {self._cluster.offsets_partition(group) for group in groups}
        if kept:
            internal = self._cluster.log_offsets(sorted({topic for topic, _ in kept}))
            ends |= {place: internal[place] for place in kept if place in internal}
        return [f"{t}/{p} at {stable}" for (t, p), (_, stable, high) in ends.items() if stable < high]

    def resolve_ends(self, places: Sequence[TopicPartition]) -> None:
        """A sentinel will stand there."""

    def mark_ends(self, places: Sequence[TopicPartition]) -> None:
        """Write a sentinel into each partition."""
        write_sentinels(self._cluster.bootstrap, places, MARK_TIMEOUT_S)


class OffsetEndMarkers(SentinelEndMarkers):
    """An `EndMarkers` of topics that are not ours: nothing is written there, and their ends are asked for."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.end_offsets: Mapping[TopicPartition, int] = {}
        self._stood: dict[
            str, tuple[Mapping[TopicPartition, int], float]
        ] = {}  # by stage: what it had written, and since when

    def inputs_left(self, stage: StageSpec, starting: bool = False) -> int | None:
        """Of a stage that commits for no group nothing, once it has written nothing for its `idle_s`; who starts is not
        idle.
        """
        if stage.group is not None:
            return super().inputs_left(stage)
        if starting:
            self._stood.pop(stage.name, None)
            return None
        try:
            written = {place: high for place, (_, _, high) in self._cluster.log_offsets(stage.writes).items()}
        except WaitTimeout:
            return None
        before, since_s = self._stood.get(stage.name, ({}, 0.0))
        if written != before:
            self._stood[stage.name] = (written, time.monotonic())
            return None
        return 0 if time.monotonic() - since_s >= stage.idle_s else None

    def outputs_written(self, stage: StageSpec) -> int:
        """Of a stage that commits for no group, when it was last looked at."""
        return sum(self._stood.get(stage.name, ({}, 0.0))[0].values())

    @staticmethod
    def _taken(stage: StageSpec, committed: Mapping[TopicPartition, int]) -> Sequence[str]:
        """Those that it is said to read, and those that its programs have made for themselves in between."""
        return sorted({*stage.reads, *(topic for topic, _ in committed)})

    def resolve_ends(self, places: Sequence[TopicPartition]) -> None:
        """Ask where each partition ends now."""
        ends = self._cluster.log_offsets(sorted({topic for topic, _ in places}))
        self.end_offsets = {place: ends[place][2] for place in places}

    def mark_ends(self, places: Sequence[TopicPartition]) -> None:
        """Nothing is written into topics that are not ours."""


def _behind(
    committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, tuple[int, int, int]]
) -> dict[TopicPartition, int]:
    """From where on inputs are left, by partition."""
    positions = {place: max(committed.get(place, -1), start) for place, (start, _, _) in ends.items()}
    return {place: position for place, position in positions.items() if position < ends[place][1]}
