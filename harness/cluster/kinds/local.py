"""`local`: brokers as processes of this machine."""

from contextlib import AbstractContextManager

from harness.cluster import PROCESS_ABILITIES, Cluster
from harness.cluster.kinds.kind import ClusterKind, ClusterParts


def _open(parts: ClusterParts) -> AbstractContextManager[Cluster]:
    from harness.cluster.local import LocalCluster

    return LocalCluster(parts.spec, parts.folder, parts.prepared, parts.supervisor, parts.next_port)


LOCAL = ClusterKind(
    name="local",
    summary="brokers as processes of this machine, three or --brokers; needs no root and no Docker",
    abilities=PROCESS_ABILITIES,
    one_clock=True,
    open=_open,
)
