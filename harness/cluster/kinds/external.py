"""`external`: a cluster that exists before the run. Other programs may use it too."""

from contextlib import AbstractContextManager

from harness.cluster import Ability, Cluster
from harness.cluster.kinds.kind import ClusterKind, ClusterParts
from harness.common.errors import UsageError
from harness.network import EFFECTS
from harness.settings.options import Options

WORKERS, LINKS, TOPICS = "workers", "links", "topics"
"""The values of `--set permits`. Workers need no permission, because they are the run's own processes."""


def _open(parts: ClusterParts) -> AbstractContextManager[Cluster]:
    from harness.cluster.external import ClientLinks, ExternalCluster

    prepared = parts.prepared
    links = (
        ClientLinks(
            endpoints=parts.spec.endpoints,
            folder=parts.folder,
            toxiproxy=prepared.toxiproxy,
            clients_jar=prepared.kafka.clients_jar,
            supervisor=parts.supervisor,
            next_port=parts.next_port,
        )
        if LINKS in parts.spec.permits
        else None
    )
    return ExternalCluster(parts.spec, links, may_add_partitions=TOPICS in parts.spec.permits)


def _check(options: Options) -> None:
    if options.bootstrap is None and options.client_config is None:
        raise UsageError(f"--cluster {EXTERNAL.name} needs --set bootstrap=HOST:PORT,...")


def _count_brokers(options: Options) -> int:
    from harness.cluster.connecting import inspect_cluster

    return len(inspect_cluster(options.bootstrap, options.client_config).brokers)


EXTERNAL = ClusterKind(
    name="external",
    summary="a cluster that exists already: --set bootstrap=HOST:PORT,...; no fault stops its brokers",
    abilities=frozenset(),
    one_clock=False,
    open=_open,
    shared=True,
    exclusive_options={
        "bootstrap": "",
        "client-config": "",
        "keep=topics": "",
        "prefix": "a cluster that a run starts has only the run's names",
        "permits": "all faults may be injected into a cluster that a run starts",
    },
    refused_options={"broker": "has its own broker settings", "keep=logs": "keeps its own segment files"},
    permits={WORKERS: frozenset(), LINKS: EFFECTS, TOPICS: frozenset({Ability.ADD_PARTITIONS})},
    check=_check,
    brokers=_count_brokers,
)
