"""`docker`: brokers in containers of this machine's Docker."""

import sys
from contextlib import AbstractContextManager

from harness.cluster import IMAGE_ABILITIES, Cluster
from harness.cluster.kinds.kind import ClusterKind, ClusterParts


def _open(parts: ClusterParts) -> AbstractContextManager[Cluster]:
    from harness.cluster.docker import DockerCluster

    return DockerCluster(parts.spec, parts.folder, parts.prepared, parts.supervisor, parts.next_port)


DOCKER = ClusterKind(
    name="docker",
    summary="brokers in containers of this machine's Docker: --set image=auto|bundled|NAME",
    abilities=IMAGE_ABILITIES,
    one_clock=sys.platform == "linux",  # elsewhere Docker runs in a virtual machine
    open=_open,
    image=True,
)
