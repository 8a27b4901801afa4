"""The table of cluster kinds, and the functions by which other code uses it."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from harness.cluster import Need
from harness.cluster.kinds.docker import DOCKER
from harness.cluster.kinds.external import EXTERNAL
from harness.cluster.kinds.kind import ClusterKind
from harness.cluster.kinds.local import LOCAL
from harness.common.errors import UsageError
from harness.common.wording import check_name, join_words
from harness.network import EFFECTS
from harness.settings.options import FIELDS, Options

_KINDS = (
    LOCAL,
    DOCKER,
    EXTERNAL,
)

CLUSTERS: Mapping[str, ClusterKind] = {kind.name: kind for kind in _KINDS}
MAX_BROKERS = 7
"""The largest value of the option `brokers`. A larger external cluster counts as a cluster of this size.

A run needs the number only to decide how many replicas a topic has.
"""


def kind_of(name: str) -> ClusterKind:
    """Return the kind of that name. If there is none, raises `UsageError` with the most similar name."""
    check_name("cluster", name, CLUSTERS)
    return CLUSTERS[name]


def abilities_of(options: Options) -> frozenset[Need]:
    """Return the abilities of a cluster of the kind and with the permits in these options."""
    kind = CLUSTERS[options.cluster]
    return kind.abilities.union(*(kind.permits.get(word, frozenset()) for word in options.permits or ()))


def clients_are_proxied(options: Options) -> bool:
    """Return whether clients use plaintext connections to proxies of the run, in front of a shared cluster."""
    return CLUSTERS[options.cluster].shared and not EFFECTS.isdisjoint(abilities_of(options))


def kafka_version_of(options: Options) -> str:
    """Describe the Kafka version of a run's brokers, for a message: `4.4.0`."""
    return "the cluster's own" if CLUSTERS[options.cluster].shared else options.kafka


def with_broker_count(options: Options) -> Options:
    """Set the option `brokers` to the size of a cluster that exists already. Raises `FencepostError`."""
    count = CLUSTERS[options.cluster].brokers
    return options if count is None else replace(options, brokers=min(MAX_BROKERS, count(options)))


def clusters_able_to(needs: Collection[Need]) -> str:
    """Name the cluster kinds that have all these abilities: "--cluster local or docker". Empty if none has."""
    required = frozenset(needs)
    names = [kind.name for kind in CLUSTERS.values() if required <= kind.abilities]
    names += [
        f"{kind.name} --set permits={word}"
        for kind in CLUSTERS.values()
        for word, extra in kind.permits.items()
        if not required <= kind.abilities and required <= kind.abilities | extra
    ]
    return f"--cluster {' or '.join(names)}" if names else ""


def require_options(options: Options) -> None:
    """Raise `UsageError` for an unknown kind, and for options that this kind refuses."""
    kind = kind_of(options.cluster)
    exclusive = {
        option: reason for owner in CLUSTERS.values() for option, reason in owner.exclusive_options.items()
    }
    for option, reason in exclusive.items():
        if option not in kind.exclusive_options and _is_set(options, option):
            owners = " or ".join(
                owner.name for owner in CLUSTERS.values() if option in owner.exclusive_options
            )
            raise UsageError(f"{_flag(option)} needs --cluster {owners}{f': {reason}' if reason else ''}")
    for option, reason in kind.refused_options.items():
        if _is_set(options, option):
            raise UsageError(f"{kind} {reason}: leave out {_flag(option)}")
    kind.check(options)
    if unknown := [word for word in options.permits or () if word not in kind.permits]:
        valid = join_words(kind.permits, most=len(kind.permits))
        raise UsageError(f'permits cannot be "{unknown[0]}" for {kind}: it may have {valid}')


def check_brokers_option(cluster: str, option_keys: Collection[str]) -> None:
    """Raise `UsageError` for an unknown kind, and for --brokers if the cluster exists already.

    `option_keys`: the keys of the options that the user wrote. The options of a stored run always have `brokers`.
    """
    kind = kind_of(cluster)
    if kind.brokers is not None and "brokers" in option_keys:
        raise UsageError(f"{kind} has its own number of brokers: leave out --brokers")


def _is_set(options: Options, option: str) -> bool:
    key, _, value = option.partition("=")
    name = FIELDS[key].name
    setting = getattr(options, name)
    return bool(setting == value) if value else bool(setting != getattr(Options(), name))


def _flag(option: str) -> str:
    """Return the option as a user writes it: "--keep topics", "--set prefix", "--set broker...."."""
    key, _, value = option.partition("=")
    if FIELDS[key].metadata["flag"]:
        return f"--{key} {value}".rstrip()
    table = isinstance(getattr(Options(), FIELDS[key].name), Mapping)
    return f"--set {key}{'....' if table else ''}{f'={value}' if value else ''}"
