"""`external`: a cluster that exists already, and that others may use as well."""

from contextlib import AbstractContextManager

from harness.cluster import Cluster
from harness.cluster.kinds.kind import ClusterKind, ClusterParts
from harness.common.errors import UsageError
from harness.network.toxics import EFFECTS
from harness.settings.options import Options

WORKERS, LINKS = "workers", "links"
"""What a run may strike, as `--set permits` says it. The workers are the run's own: they need no permission."""


def _open(parts: ClusterParts) -> AbstractContextManager[Cluster]:
    from harness.cluster.client_links import ClientLinks
    from harness.cluster.external import ExternalCluster

    made = (parts.folder / "proxies", parts.prepared.toxiproxy, parts.supervisor, parts.next_port)
    links = ClientLinks(parts.spec.endpoints, *made) if LINKS in parts.spec.permits else None
    return ExternalCluster(parts.spec, links)


def _check(options: Options) -> None:
    if options.bootstrap is None and options.client_config is None:
        raise UsageError(f"--cluster {EXTERNAL.name} needs --set bootstrap=HOST:PORT,...")


def _count_brokers(options: Options) -> int:
    from harness.cluster.connecting import inspect_cluster

    return len(inspect_cluster(options.bootstrap, options.client_config).brokers)


EXTERNAL = ClusterKind(
    name="external",
    summary="a cluster that is already there: --set bootstrap=HOST:PORT,...; its brokers are not struck",
    abilities=frozenset(),
    one_clock=False,
    open=_open,
    shared=True,
    own_options={
        "bootstrap": "",
        "client-config": "",
        "keep=topics": "",
        "prefix": "a cluster of the run's own has no other names",
        "permits": "everything of a cluster of our own may be struck",
    },
    refused_options={"broker": "has its own broker settings", "keep=logs": "keeps its segment files itself"},
    permits={WORKERS: frozenset(), LINKS: EFFECTS},
    check=_check,
    brokers=_count_brokers,
)
