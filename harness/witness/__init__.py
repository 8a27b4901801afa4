"""The brokers' witness: what their logs hold, batch by batch.

`Witness` is the interface: segment files of every replica of a cluster of ours, or what a leader gives to a Fetch.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.witness.replicas import Replica


class Witness(Protocol):
    """A way to read the logs of a cluster."""

    @property
    def kind(self) -> str:
        """`segments`: the files of every replica; `fetch`: what the leaders give."""
        ...

    @property
    def refused(self) -> Mapping[str, str]:
        """By topic: why its log may not be read."""
        ...

    def replicas(self, topics: Collection[str]) -> Iterator["Replica"]:
        """The logs of these topics' partitions, one for each replica that can be read."""
        ...
