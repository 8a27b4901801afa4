"""The kinds of cluster: a new one is an entry here, and a word of the option `cluster`."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cluster import EVERYTHING, OF_PROCESSES, Cluster, ClusterSpec, Need
from harness.network.toxics import EFFECTS
from harness.settings.clusters import LINKS
from harness.settings.options import Options

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
    can: frozenset[Need]
    one_clock: bool  # brokers and clients run on one machine
    open: Callable[[ClusterParts], AbstractContextManager[Cluster]]
    shared: bool = False  # with others: what a run makes there bears a tag
    brokers: Callable[[Options], int] | None = None  # asks how many it has; None: as many as the options say
    permitted: Mapping[str, frozenset[Need]] = field(
        default_factory=dict
    )  # what each of `permits` adds to `can`


def _local(parts: ClusterParts) -> AbstractContextManager[Cluster]:
    from harness.cluster.local import LocalCluster

    return LocalCluster(parts.spec, parts.folder, parts.prepared, parts.supervisor, parts.next_port)


def _docker(parts: ClusterParts) -> AbstractContextManager[Cluster]:
    from harness.cluster.docker import DockerCluster

    return DockerCluster(parts.spec, parts.folder, parts.prepared, parts.supervisor, parts.next_port)


def _external(parts: ClusterParts) -> AbstractContextManager[Cluster]:
    from harness.cluster.client_links import ClientLinks
    from harness.cluster.external import ExternalCluster

    made = (parts.folder / "proxies", parts.prepared.toxiproxy, parts.supervisor, parts.next_port)
    links = ClientLinks(parts.spec.slots, *made) if LINKS in parts.spec.permits else None
    return ExternalCluster(parts.spec, links)


def _look(options: Options) -> int:
    from harness.cluster.connecting import look

    return len(look(options.bootstrap, options.client_config).brokers)


_ALL = (
    ClusterKind(
        name="local",
        summary="Kafka nodes as processes of this machine, three or --brokers, no root and no Docker",
        can=OF_PROCESSES,
        one_clock=True,
        open=_local,
    ),
    ClusterKind(
        name="docker",
        summary="Kafka nodes as containers of this machine's Docker: --set image=auto|bundled|NAME",
        can=EVERYTHING,
        one_clock=sys.platform == "linux",  # elsewhere Docker runs in a virtual machine
        open=_docker,
    ),
    ClusterKind(
        name="external",
        summary="a cluster that is already there: --set bootstrap=HOST:PORT,...; its brokers are not struck",
        can=frozenset(),
        one_clock=False,
        open=_external,
        shared=True,
        brokers=_look,
        permitted={LINKS: EFFECTS},
    ),
)


def can(options: Options) -> frozenset[Need]:
    """What can be done to the cluster of these options, as far as the user permits it."""
    kind = CLUSTERS[options.cluster]
    return kind.can.union(*(kind.permitted.get(one, frozenset()) for one in options.permits or ()))


def kafka_of(options: Options) -> str:
    """The version of Kafka of a run's brokers, for people."""
    return "the cluster's own" if CLUSTERS[options.cluster].shared else options.kafka


MOST_BROKERS = 7
"""That options can say; a run needs to know no more of them than how many replicas a topic can have."""


def sized(options: Options) -> Options:
    """These options with as many brokers as the cluster has, where it is there already. Raises `FencepostError`."""
    count = CLUSTERS[options.cluster].brokers
    return options if count is None else replace(options, brokers=min(MOST_BROKERS, count(options)))


CLUSTERS: Mapping[str, ClusterKind] = {kind.name: kind for kind in _ALL}
