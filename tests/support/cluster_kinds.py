"""Open a real cluster of each kind as a run opens it, and list what it leaves behind."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AclOperation, AdminClient, ResourcePatternType, ResourceType

from harness.clients.client_properties import ClientProperties, use_client_config
from harness.cluster import Cluster, ClusterSpec
from harness.cluster.kinds.kind import ClusterKind, ClusterParts
from harness.cluster.kinds.registry import CLUSTERS
from harness.environment import PreparedEnvironment
from harness.environment.cache import cache_folder
from harness.environment.kafka import versions
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.model.pipeline import TopicSpec
from harness.network import ApplyRule
from harness.processes.guardian import marked_processes
from harness.processes.spawn import Supervisor
from tests.support import docker_engine
from tests.support.conformance.means import DECODED_ENDPOINT, ENDPOINT, GROUP, ClusterUser
from tests.support.secured_cluster import SecuredCluster

TAG = "fencepost-conformance-"
OTHERS_TOPIC = "a-strangers-topic"
_TOPIC = ("CREATE", "DELETE", "DESCRIBE", "READ", "WRITE")
_RIGHTS = (
    *((ResourceType.TOPIC, right) for right in _TOPIC),
    *((ResourceType.GROUP, right) for right in ("READ", "DELETE")),
    *((ResourceType.TRANSACTIONAL_ID, right) for right in ("DESCRIBE", "WRITE")),
)
USER_RIGHTS = [
    (kind, "fencepost-", ResourcePatternType.PREFIXED, AclOperation[right]) for kind, right in _RIGHTS
]
"""The rights that docs/external-clusters.md requires. It requires none on the internal topics."""

ALTER_TOPICS = (ResourceType.TOPIC, "fencepost-", ResourcePatternType.PREFIXED, AclOperation.ALTER)
"""The right that `permits=topics` requires in addition."""


@dataclass(frozen=True)
class Environment:
    """The resources that are needed to open a cluster."""

    folder: Path
    prepared: PreparedEnvironment
    supervisor: Supervisor
    ports: PortBlock


@dataclass(frozen=True)
class OpenedCluster:
    """A cluster that is up."""

    cluster: Cluster
    folder: Path  # of its run
    user: ClusterUser
    close: Callable[[], None]  # idempotent
    leftovers: Callable[[], list[str]]  # processes, containers, topics and groups that are left after `close`


@dataclass(frozen=True)
class Version:
    """A kind of cluster with a version of Kafka."""

    kind: str
    kafka: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.kafka}"

    @property
    def missing_requirement(self) -> str | None:
        """What this machine lacks to open such a cluster; None if nothing."""
        return docker_engine.unavailable_reason() if CLUSTERS[self.kind].image else None

    @contextmanager
    def open(self, folder: Path) -> Iterator[OpenedCluster]:
        """Open a cluster of this kind. `folder` is the folder of its run."""
        kind = CLUSTERS[self.kind]
        image = "bundled" if kind.image else None
        prepared = prepare(self.kafka, "auto", "auto", cache_folder(), lambda words: None, image_choice=image)
        with Supervisor() as supervisor, PortBlock(prepared.cache) as ports, ExitStack() as up:
            environment = Environment(folder, prepared, supervisor, ports)
            yield up.enter_context(
                (_shared_cluster if kind.shared else _own_cluster)(kind, self.kafka, environment)
            )


def every() -> list[Version]:
    """Each kind with each pinned version, newest first. A shared cluster only with the newest."""
    return [
        Version(kind.name, kafka)
        for kind in CLUSTERS.values()
        for kafka in (versions()[:1] if kind.shared else versions())
    ]


@contextmanager
def _own_cluster(kind: ClusterKind, kafka: str, environment: Environment) -> Iterator[OpenedCluster]:
    list_objects: Callable[[], set[str]] = docker_engine.list_fencepost_objects if kind.image else set
    before = list_objects()
    decoded = (f"client:{DECODED_ENDPOINT}",) if ApplyRule in kind.abilities else ()
    spec = ClusterSpec(endpoints=(ENDPOINT, DECODED_ENDPOINT), kafka=kafka, decoded=decoded)
    context = _open(kind, spec, environment)
    cluster = context.__enter__()

    def leftovers() -> list[str]:
        processes = [process for process, mark in marked_processes() if mark == environment.supervisor.mark]
        return [*map(str, processes), *sorted(list_objects() - before)]

    with ExitStack() as stack:
        stack.push(context)
        yield OpenedCluster(cluster, environment.folder, ClusterUser(), stack.close, leftovers)


@contextmanager
def _shared_cluster(kind: ClusterKind, kafka: str, environment: Environment) -> Iterator[OpenedCluster]:
    """Open a cluster with TLS, SASL and ACLs, on which another user has a topic."""
    folder = environment.folder / "theirs"
    spec = ClusterSpec(endpoints=(ENDPOINT,), kafka=kafka)
    make = partial(
        SecuredCluster, spec, folder, environment.prepared, environment.supervisor, environment.ports.take
    )
    with make() as host, ExitStack() as stack:
        host.create_user(*USER_RIGHTS, ALTER_TOPICS)
        host.create_topics([TopicSpec(OTHERS_TOPIC, 1)], 60)
        before = _topics_and_groups(host)
        config = host.client_config(environment.folder / "client.properties")
        user_spec = ClusterSpec(
            kafka=kafka,
            bootstrap=host.bootstrap_for(ENDPOINT),
            client_config=str(config),
            tag=TAG,
            groups=(f"{TAG}{GROUP}",),
            permits=("topics",),
        )
        stack.callback(use_client_config, None)
        cluster = stack.enter_context(_open(kind, user_spec, environment))

        user = ClusterUser(TAG, shared=True, security=ClientProperties.load(config).security)

        def leftovers() -> list[str]:
            return sorted(_topics_and_groups(host) ^ before)

        yield OpenedCluster(cluster, environment.folder, user, stack.close, leftovers)


def _open(kind: ClusterKind, spec: ClusterSpec, environment: Environment) -> AbstractContextManager[Cluster]:
    cluster_parts = ClusterParts(
        spec, environment.folder, environment.prepared, environment.supervisor, environment.ports.take
    )
    return kind.open(cluster_parts)


def _topics_and_groups(cluster: Cluster) -> set[str]:
    """All topics and groups except the internal ones."""
    use_client_config(None)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    groups = admin.list_consumer_groups(request_timeout=30).result().valid
    topics = {name for name in admin.list_topics(timeout=30).topics if not name.startswith("__")}
    return {f"topic {name}" for name in topics} | {f"group {group.group_id}" for group in groups}
