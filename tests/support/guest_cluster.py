"""A shared cluster, as its brokers describe it: topics, groups, and the time of the newest record of each topic."""

from collections.abc import Collection
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster import PartitionView, admin, operations
from harness.cluster.admin import RequestRefused
from harness.wire.protocol import Target, WireError

NO_SUCH_TOPIC, NON_EMPTY = 3, 68


@dataclass
class GuestCluster:
    """Two brokers: the first coordinates all groups, and each topic has a partition on each."""

    last_write_ms: dict[str, int] = field(
        default_factory=dict
    )  # by topic: the timestamp of its newest record in ms; -1: no record
    members: dict[str, int] = field(default_factory=dict)  # by group
    forbidden: set[str] = field(default_factory=set)  # topics and groups that the user may not delete
    leaderless: set[str] = field(default_factory=set)
    joining: set[str] = field(default_factory=set)  # groups that get a member before they are deleted
    hidden: bool = False  # whether ACLs hide all groups from the user
    of_unknown_protocol: set[str] = field(
        default_factory=set
    )  # groups of a protocol that Fencepost does not know
    not_listing: set[int] = field(default_factory=set)  # brokers that do not list their groups
    brokers: dict[int, Target] = field(default_factory=lambda: {1: 1, 2: 2})

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(admin, "fetch_view", self.fetch_view)
        patch.setattr(admin, "list_offsets_and_timestamps", self.list_offsets_and_timestamps)
        patch.setattr(admin, "find_coordinator", self.find_coordinator)
        patch.setattr(admin, "list_groups", self.list_groups)
        patch.setattr(admin, "describe_group", self.describe_group)
        patch.setattr(operations, "delete_topics", self.delete_topics)
        patch.setattr(operations, "delete_group", self.delete_group)

    def fetch_view(
        self, at: Target, timeout_s: float = 0.0, topics: Collection[str] | None = None
    ) -> admin.BrokerView:
        known = {
            name: {
                n: PartitionView(-1 if name in self.leaderless else n + 1, (1, 2), (1, 2), "id")
                for n in (0, 1)
            }
            for name in (self.last_write_ms if topics is None else topics)
            if name in self.last_write_ms
        }
        refused = {name: NO_SUCH_TOPIC for name in topics or () if name not in known}
        return admin.BrokerView((1, 2), known, {}, {1: ("a", 1), 2: ("b", 2)}, 1, refused)

    def list_offsets_and_timestamps(
        self, at: int, topic_partitions: Collection[tuple[str, int]], timestamp: int, *_: Any
    ) -> dict[tuple[str, int], Any]:
        assert timestamp == admin.MAX_TIMESTAMP
        assert {number for _, number in topic_partitions} == {at - 1}, (
            "each leader is asked for its own partitions"
        )
        # Only the first partition was written.
        timestamps = {(name, n): self.last_write_ms[name] if n == 0 else -1 for name, n in topic_partitions}
        return {
            topic_partition: SimpleNamespace(offset=0, timestamp=written)
            for topic_partition, written in timestamps.items()
        }

    def find_coordinator(self, at: Target, key: str, kind: int, timeout_s: float = 0.0) -> int:
        if self.hidden:
            raise RequestRefused(f"finding the coordinator of {key}", 30)
        return 1

    def list_groups(self, at: int, timeout_s: float = 0.0) -> dict[str, str]:
        if at in self.not_listing:
            raise WireError(f"no answer from port {at}")
        states = {group: "Stable" if members else "Empty" for group, members in self.members.items()}
        return states if at == 1 and not self.hidden else {}

    def describe_group(self, at: int, group: str, timeout_s: float = 0.0) -> tuple[str, tuple[str, ...]]:
        assert at == 1, "a group is asked for at its coordinator"
        if group in self.of_unknown_protocol:
            return "Dead", ()
        return "Stable", tuple(f"m{n}" for n in range(self.members[group]))

    def delete_topics(self, at: Target, topics: Collection[str], timeout_s: float) -> None:
        for name in topics:
            if name in self.forbidden:
                raise RequestRefused(f"deleting the topic {name}", 29)
            del self.last_write_ms[name]

    def delete_group(self, at: int, group: str, timeout_s: float = 0.0) -> None:
        assert at == 1, "a group is deleted at its coordinator"
        if group in self.forbidden:
            raise RequestRefused(f"deleting the group {group}", 30)
        if group in self.joining or self.members[group]:
            raise RequestRefused(f"deleting the group {group}", NON_EMPTY)
        del self.members[group]
