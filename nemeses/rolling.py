"""Faults that restart one broker after the other while the pipeline runs: a row of `NEMESES` each.

The next broker is shut down when all replicas are in sync again. So every leader, every coordinator and the active
controller move at least once.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random

from harness.cluster import Ability
from harness.common.wording import join_words
from harness.environment.kafka import versions
from harness.runner.nemesis import (
    VERSIONS,
    DrawnFault,
    ExtraNeeds,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    NoTarget,
    PlannedFault,
    Resource,
    RoleChoice,
    Target,
    uses_also,
    uses_brokers,
)
from nemeses.aiming.roles import FAILOVER_BROKERS
from nemeses.effects.brokers import brokers_in_role, restart

NEXT, ALL, BACK = "next", "all", "back"
FEATURE = "metadata.version"
VERSION_TIMEOUT_S = 30.0
ROLL_S = 30.0
"""How long three brokers need to be restarted in turn, in seconds."""


@contextmanager
def rolling_restart(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Restart every broker. The fault acted if each process shut down cleanly and another one runs in its place."""
    brokers = brokers_in_role(context, planned.target)
    numbers = [str(broker.id) for broker in brokers]
    effect = InjectedFault(
        target=f"brokers {join_words(numbers, most=len(numbers))}", details={"broker": ", ".join(numbers)}
    )
    effect.mark_injected()
    for proof in [restart(context, broker) for broker in brokers]:
        effect.add_proof(proof)
    yield effect


@contextmanager
def rolling_upgrade(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Upgrade the brokers to each version of the target in turn.

    The fault acted if each broker has logged each version, and if the brokers finalized the features of the last one
    or went back to the first one.
    """
    path = planned.target.kafka_versions
    effect = InjectedFault(
        target=f"every broker in turn, from Kafka {' to '.join(path)}",
        short_target="every broker",
        details={
            "broker": ", ".join(str(broker.id) for broker in context.cluster.brokers),
            "versions": ", ".join(path),
        },
    )
    effect.mark_injected()
    proofs: list[str] = []
    for version in path[1:]:
        proofs += _upgrade(context, version)
        if path[-1] != path[0]:
            proofs.append(_finalize(context, version))
    for proof in proofs:
        effect.add_proof(proof)
    yield effect


def _upgrade(context: FaultContext, version: str) -> Iterator[str]:
    """Restart each broker on a version, and yield the proof. Raises `WaitTimeout` if a broker logs another version."""
    cluster = context.cluster
    for broker in cluster.brokers:
        proof = restart(context, broker, partial(cluster.use_kafka, broker.id, version))
        context.wait_for(
            partial(_runs, broker.kafka_version, version),
            f"broker {broker.id} to log that it is Kafka {version}",
            VERSION_TIMEOUT_S,
            last_seen=broker.kafka_version,
        )
        level = cluster.supported_features(broker.id).get(FEATURE)
        yield f"{proof} of Kafka {version}, which supports {FEATURE} {level}"


def _runs(logged: Callable[[], str], version: str) -> bool:
    return logged() == version


def _finalize(context: FaultContext, version: str) -> str:
    """Finalize the features of a new cluster of a version, and return the proof. Raises `WaitTimeout`."""
    cluster = context.cluster
    before = dict(cluster.finalized_features())
    higher = {
        name: level for name, level in cluster.features_of(version).items() if level > before.get(name, 0)
    }
    cluster.update_features(higher)
    context.wait_for(
        lambda: higher.items() <= cluster.finalized_features().items(),
        f"the features of Kafka {version} to be finalized",
        VERSION_TIMEOUT_S,
        last_seen=cluster.finalized_features,
    )
    words = (f"{name} {before.get(name, 0)} to {level}" for name, level in sorted(higher.items()))
    return f"finalized for Kafka {version}: {', '.join(words)}"


def paths(targets: FaultTargets) -> dict[str, str]:
    """Return the versions that the brokers run in turn, by what follows @. Raises `NoTarget` if none is newer."""
    in_order = list(reversed(versions()))
    start, newer = targets.kafka, in_order[in_order.index(targets.kafka) + 1 :]
    if not newer:
        raise NoTarget(f"an older version at the start, such as --kafka {in_order[-2]}")
    steps = {
        NEXT: newer[:1],
        ALL: newer,
        BACK: [newer[0], start],
        **{version: [version] for version in newer},
    }
    return {at: ",".join([start, *later]) for at, later in steps.items()}


def _choice(at: str) -> RoleChoice:
    def draw(rng: Random, targets: FaultTargets, _: str) -> Target:
        possible = paths(targets)
        if at not in possible:
            raise NoTarget(f"an older version at the start: --kafka is {targets.kafka}")
        return Target(VERSIONS, possible[at])

    return RoleChoice(draw)


def _all_in_turn(rng: Random, targets: FaultTargets) -> DrawnFault:
    in_order = rng.sample(targets.brokers, len(targets.brokers))
    return DrawnFault(Target("all", ",".join(map(str, in_order))))


def _to_next_version(rng: Random, targets: FaultTargets) -> DrawnFault:
    return DrawnFault(Target(VERSIONS, paths(targets)[NEXT]))


NEMESES: Sequence[Nemesis] = (
    # As for a new configuration.
    Nemesis(
        name="rolling-restart",
        summary="shut down each broker in turn with SIGTERM, and start it again when all replicas are in sync",
        past_tense="restarted in turn",
        proves="every process shut down cleanly, and another process is in sync in its place",
        needs=frozenset({Ability.KILL}),
        occupies=uses_brokers,
        hold_s=30.0,
        recovery_s=5.0,
        draw=_all_in_turn,
        least_brokers=FAILOVER_BROKERS,
        inject=rolling_restart,
        by_default=False,
    ),
    # `--kafka` is the version at the start. When all brokers run the new version, the features that a new cluster of it
    # has are finalized: `metadata.version`, and with it `transaction.version` and others. Until then Kafka permits the
    # way back. After @ follows the version to which the brokers are upgraded, `all` for each pinned version in turn, or
    # `back` for the next version and back. Without it, they are upgraded to the next version.
    Nemesis(
        name="rolling-upgrade",
        summary="restart each broker in turn on a newer version of Kafka than --kafka, and finalize its features",
        past_tense="was upgraded in turn",
        proves="every broker logs the new version, and features have new levels, unless the brokers go back",
        needs=frozenset({Ability.KILL, Ability.UPGRADE}),
        occupies=uses_also(Resource.FEATURES, uses_brokers),
        hold_s=ROLL_S + 5,
        recovery_s=5.0,
        draw=_to_next_version,
        roles={at: _choice(at) for at in (*versions()[:-1], ALL, BACK)},
        extra_needs_by_state={
            ALL: ExtraNeeds(extra_s=ROLL_S * (len(versions()) - 2)),
            BACK: ExtraNeeds(extra_s=ROLL_S),
        },
        least_brokers=FAILOVER_BROKERS,
        inject=rolling_upgrade,
        by_default=False,
    ),
)
