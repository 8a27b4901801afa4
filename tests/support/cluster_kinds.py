"""A real cluster of each kind that there is, opened as a run opens it, and what it has left once it is over."""

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
from harness.environment.ports import PortBlock
from harness.environment.prepare import prepare
from harness.model.pipeline import TopicSpec
from harness.processes.marks import marked_processes
from harness.processes.spawn import Supervisor
from tests.support import docker_engine
from tests.support.conformance.means import ENDPOINT, GROUP, Footing
from tests.support.secured_cluster import SecuredCluster

TAG = "fencepost-conformance-"
STRANGER = "a-strangers-topic"
_TOPIC = ("CREATE", "DELETE", "DESCRIBE", "READ", "WRITE")
_RIGHTS = (
    *((ResourceType.TOPIC, right) for right in _TOPIC),
    *((ResourceType.GROUP, right) for right in ("READ", "DELETE")),
    *((ResourceType.TRANSACTIONAL_ID, right) for right in ("DESCRIBE", "WRITE")),
)
GUEST = [(kind, "fencepost-", ResourcePatternType.PREFIXED, AclOperation[right]) for kind, right in _RIGHTS]
"""What docs/external-clusters.md asks for; nothing on the internal topics."""


@dataclass(frozen=True)
class Parts:
    """What there is to open a cluster with."""

    folder: Path
    prepared: PreparedEnvironment
    supervisor: Supervisor
    ports: PortBlock


@dataclass(frozen=True)
class Subject:
    """A cluster that is up."""

    cluster: Cluster
    folder: Path  # of its run
    footing: Footing
    close: Callable[[], None]  # leave it, once; idempotent
    left: Callable[[], list[str]]  # what it has left behind, once it is over


@dataclass(frozen=True)
class Version:
    """A kind of cluster on a version of Kafka."""

    kind: str
    kafka: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.kafka}"

    @property
    def missing(self) -> str | None:
        """Why this machine cannot have one; None: it can."""
        return docker_engine.why_not() if CLUSTERS[self.kind].image else None

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Subject]:
        """One that is up, in a folder of its own."""
        kind = CLUSTERS[self.kind]
        image = "bundled" if kind.image else None
        prepared = prepare(self.kafka, "auto", "auto", cache_folder(), lambda words: None, image_choice=image)
        with Supervisor() as supervisor, PortBlock(prepared.cache) as ports, ExitStack() as up:
            parts = Parts(folder, prepared, supervisor, ports)
            yield up.enter_context((_as_guest if kind.shared else _of_ones_own)(kind, self.kafka, parts))


def every() -> list[Version]:
    """Each kind on each pinned version, newest first; one that is there already on the newest."""
    found = []
    for kind in CLUSTERS.values():
        found += [Version(kind.name, kafka) for kafka in (versions()[:1] if kind.shared else versions())]
    return found


@contextmanager
def _of_ones_own(kind: ClusterKind, kafka: str, parts: Parts) -> Iterator[Subject]:
    aside: Callable[[], set[str]] = docker_engine.things_of_ours if kind.image else set
    before = aside()
    spec = ClusterSpec(endpoints=(ENDPOINT, "w0"), kafka=kafka)
    opened = _opened(kind, spec, parts)
    cluster = opened.__enter__()

    def left() -> list[str]:
        processes = [process for process, whose in marked_processes() if whose == parts.supervisor.mark]
        return [*map(str, processes), *sorted(aside() - before)]

    with ExitStack() as stack:
        stack.push(opened)
        yield Subject(cluster, parts.folder, Footing(), stack.close, left)


@contextmanager
def _as_guest(kind: ClusterKind, kafka: str, parts: Parts) -> Iterator[Subject]:
    """On a cluster with TLS, SASL and ACLs, beside a stranger's topic."""
    place = parts.folder / "theirs"
    spec = ClusterSpec(endpoints=(ENDPOINT,), kafka=kafka)
    make = partial(SecuredCluster, spec, place, parts.prepared, parts.supervisor, parts.ports.take)
    with make() as host, ExitStack() as stack:
        host.admit(*GUEST)
        host.create_topics([TopicSpec(STRANGER, 1)], 60)
        before = _things_on(host)
        config = host.client_config(parts.folder / "client.properties")
        told = ClusterSpec(
            kafka=kafka,
            bootstrap=host.bootstrap_for(ENDPOINT),
            client_config=str(config),
            tag=TAG,
            groups=(f"{TAG}{GROUP}",),
        )
        stack.callback(use_client_config, None)
        cluster = stack.enter_context(_opened(kind, told, parts))

        footing = Footing(TAG, guest=True, security=ClientProperties.load(config).security)

        def left() -> list[str]:
            return sorted(_things_on(host) ^ before)

        yield Subject(cluster, parts.folder, footing, stack.close, left)


def _opened(kind: ClusterKind, spec: ClusterSpec, parts: Parts) -> AbstractContextManager[Cluster]:
    taken = ClusterParts(spec, parts.folder, parts.prepared, parts.supervisor, parts.ports.take)
    return kind.open(taken)


def _things_on(cluster: Cluster) -> set[str]:
    """Topics and groups, the internal ones aside."""
    use_client_config(None)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    groups = admin.list_consumer_groups(request_timeout=30).result().valid
    topics = {name for name in admin.list_topics(timeout=30).topics if not name.startswith("__")}
    return {f"topic {name}" for name in topics} | {f"group {one.group_id}" for one in groups}
