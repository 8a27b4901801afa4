"""The kinds of cluster: a new one is an entry here, and a word of the option `cluster`."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cluster import Ability, Cluster, ClusterSpec

if TYPE_CHECKING:
    from harness.environment import Prepared
    from harness.processes.spawn import Supervisor


@dataclass(frozen=True)
class ClusterParts:
    """What a cluster is opened with."""

    spec: ClusterSpec
    folder: Path
    prepared: "Prepared"
    supervisor: "Supervisor"
    next_port: Callable[[], int]


@dataclass(frozen=True)
class ClusterKind:
    """One kind of cluster."""

    name: str
    summary: str
    can: frozenset[Ability]
    one_clock: bool  # brokers and clients run on one machine
    open: Callable[[ClusterParts], AbstractContextManager[Cluster]]


def _local(parts: ClusterParts) -> AbstractContextManager[Cluster]:
    from harness.cluster.local import LocalCluster

    return LocalCluster(parts.spec, parts.folder, parts.prepared, parts.supervisor, parts.next_port)


_ALL = (
    ClusterKind(
        name="local",
        summary="Kafka nodes as processes of this machine, three or --brokers, no root and no Docker",
        can=frozenset(Ability),
        one_clock=True,
        open=_local,
    ),
)
CLUSTERS: Mapping[str, ClusterKind] = {kind.name: kind for kind in _ALL}
