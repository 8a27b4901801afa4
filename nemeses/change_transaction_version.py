"""change-transaction-version: change the feature `transaction.version` while transactions go on, and change it back.

On version 2, a client sends no AddPartitionsToTxn, and each transaction has an epoch of its own (KIP-890). A client
learns the version when it connects to a broker. After a change from 2, its next EndTxn is refused, and the program must
make a new producer. After a change to 2, a client that stays connected goes on as before. So transactions of both kinds
are in one log.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.cluster import Ability
from harness.common.wording import join_words
from harness.environment.versions import kafka_version
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    NoTarget,
    PlannedFault,
    Resource,
    Target,
    TargetMissing,
    uses_also,
    uses_brokers,
)
from nemeses.aiming.targets import choose

FEATURE = "transaction.version"
EPOCH_EACH = 2
"""The level from which on each transaction has an epoch of its own."""
FINALIZE_TIMEOUT_S = 20.0


@contextmanager
def change_transaction_version(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Change the level. The fault acted if every broker answers the new level."""
    cluster = context.cluster
    level = int(planned.target.name.partition("=")[2])
    before = cluster.finalized_features().get(FEATURE, 0)
    if level == before:
        raise TargetMissing(f"{FEATURE} is {level} already")
    effect = InjectedFault(
        target=f"{FEATURE} from {before} to {level}",
        short_target=FEATURE,
        details={"level": str(level)},
    )
    effect.mark_injected()
    try:
        _finalize(context, level)
        brokers = join_words([str(broker.id) for broker in cluster.brokers], most=len(cluster.brokers))
        effect.add_proof(f"brokers {brokers} say that {FEATURE} is {level}, and no longer {before}")
        yield effect
    finally:
        _finalize(context, before)


def _finalize(context: FaultContext, level: int) -> None:
    """Set the level, and wait until every broker knows it. Raises `WaitTimeout`."""
    cluster = context.cluster
    cluster.update_features({FEATURE: level})

    def known() -> dict[int, int]:
        return {
            broker.id: cluster.finalized_features(broker.id).get(FEATURE, 0)
            for broker in cluster.brokers
            if broker.running
        }

    context.wait_for(
        lambda: set(known().values()) == {level},
        f"every broker to say that {FEATURE} is {level}",
        FINALIZE_TIMEOUT_S,
        every_s=0.2,
        last_seen=known,
    )


def levels_to(targets: FaultTargets) -> list[int]:
    """Return the levels that the fault can choose: the change must begin or end the epoch of each transaction."""
    levels = kafka_version(targets.kafka).transaction_versions
    had_epoch_each = targets.transaction_version >= EPOCH_EACH
    return [level for level in levels if (level >= EPOCH_EACH) != had_epoch_each]


def _draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    if not targets.ids and not targets.stages_with_unknown_ids:
        raise NoTarget("a pipeline with a transactional id")
    level = choose(rng, levels_to(targets), f"a Kafka with {FEATURE} {EPOCH_EACH}: --kafka 4.0.2 or newer")
    return DrawnFault(Target("feature", f"{FEATURE}={level}"))


NEMESIS = Nemesis(
    name="change-transaction-version",
    summary="change the feature transaction.version while transactions go on (KIP-890), and change it back",
    past_tense="was changed",
    proves="every broker answers the new level",
    needs=frozenset({Ability.OPERATE}),
    occupies=uses_also(Resource.FEATURES, uses_brokers),
    hold_s=12.0,
    recovery_s=5.0,
    draw=_draw,
    inject=change_transaction_version,
    by_default=False,
)
