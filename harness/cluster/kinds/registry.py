"""The table of the kinds of cluster, and what everything else asks of it."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from harness.cluster import Need
from harness.cluster.kinds.docker import DOCKER
from harness.cluster.kinds.external import EXTERNAL
from harness.cluster.kinds.kind import ClusterKind
from harness.cluster.kinds.local import LOCAL
from harness.common.errors import UsageError
from harness.common.names import check_name
from harness.network.toxics import EFFECTS
from harness.settings.options import FIELDS, Options

_KINDS = (
    LOCAL,
    DOCKER,
    EXTERNAL,
)

CLUSTERS: Mapping[str, ClusterKind] = {kind.name: kind for kind in _KINDS}
MAX_BROKERS = 7
"""The limit of the option `brokers`. A run needs the number only to know how many replicas a topic can have."""


def kind_of(name: str) -> ClusterKind:
    """Return the kind of that name. Raises `UsageError`, which names the nearest one."""
    check_name("cluster", name, CLUSTERS)
    return CLUSTERS[name]


def abilities_of(options: Options) -> frozenset[Need]:
    """Return what can be done to the cluster of these options, as far as the user permits it."""
    kind = CLUSTERS[options.cluster]
    return kind.abilities.union(*(kind.permits.get(one, frozenset()) for one in options.permits or ()))


def clients_are_proxied(options: Options) -> bool:
    """Say whether clients reach a shared cluster through proxies of the run, to which they speak plaintext."""
    return CLUSTERS[options.cluster].shared and not EFFECTS.isdisjoint(abilities_of(options))


def kafka_version_of(options: Options) -> str:
    """Return the version of Kafka of a run's brokers, for people."""
    return "the cluster's own" if CLUSTERS[options.cluster].shared else options.kafka


def with_broker_count(options: Options) -> Options:
    """Return the options with the cluster's own number of brokers, if it exists already. Raises `FencepostError`."""
    count = CLUSTERS[options.cluster].brokers
    return options if count is None else replace(options, brokers=min(MAX_BROKERS, count(options)))


def clusters_able_to(needs: Collection[Need]) -> str:
    """Return which clusters can do all of it: "--cluster local or docker"; empty if none can."""
    wanted = frozenset(needs)
    able = [kind.name for kind in CLUSTERS.values() if wanted <= kind.abilities]
    able += [
        f"{kind.name} --set permits={word}"
        for kind in CLUSTERS.values()
        for word, more in kind.permits.items()
        if not wanted <= kind.abilities and wanted <= kind.abilities | more
    ]
    return f"--cluster {' or '.join(able)}" if able else ""


def require_options(options: Options) -> None:
    """Raise `UsageError` for an unknown kind, and for options that this kind does not take."""
    kind = kind_of(options.cluster)
    taken = {word: why for one in CLUSTERS.values() for word, why in one.own_options.items()}
    for word, why in taken.items():
        if word not in kind.own_options and _is_given(options, word):
            able = " or ".join(one.name for one in CLUSTERS.values() if word in one.own_options)
            raise UsageError(f"{_flag(word)} needs --cluster {able}{f': {why}' if why else ''}")
    for word, why in kind.refused_options.items():
        if _is_given(options, word):
            raise UsageError(f"{kind} {why}: leave out {_flag(word)}")
    kind.check(options)
    if strange := [one for one in options.permits or () if one not in kind.permits]:
        may = " and ".join(kind.permits)
        raise UsageError(f"a run cannot strike {strange[0]} of {kind}: permits may have {may}")


def check_brokers_option(cluster: str, given: Collection[str]) -> None:
    """Raise `UsageError` for an unknown kind, and for --brokers if the cluster has a number of its own.

    `given`: the keys of the options that the user wrote. A stored run has a number of brokers that nobody wrote.
    """
    kind = kind_of(cluster)
    if kind.brokers is not None and "brokers" in given:
        raise UsageError(f"{kind} has its own number of brokers: leave out --brokers")


def _is_given(options: Options, word: str) -> bool:
    key, _, value = word.partition("=")
    name = FIELDS[key].name
    actual = getattr(options, name)
    return bool(actual == value) if value else bool(actual != getattr(Options(), name))


def _flag(word: str) -> str:
    """Return how a user gives an option: "--keep topics", "--set prefix", "--set broker...."."""
    key, _, value = word.partition("=")
    if FIELDS[key].metadata["flag"]:
        return f"--{key} {value}".rstrip()
    table = isinstance(getattr(Options(), FIELDS[key].name), Mapping)
    return f"--set {key}{'....' if table else ''}{f'={value}' if value else ''}"
