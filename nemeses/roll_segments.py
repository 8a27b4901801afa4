"""roll-segments: let the partitions of a topic begin a new segment file every second.

A new segment begins with a snapshot of the producers, and has an index of aborted transactions of its own. So open
transactions reach over several files. No record is deleted, unless the user has switched the log cleaner on: then it
compacts the old segments of a compacted topic, such as `__consumer_offsets`, at once.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from harness.cluster import Ability, Cluster
from harness.common.errors import EnvironmentFailure, WaitTimeout
from harness.runner.nemesis import (
    FaultContext,
    InjectedFault,
    Nemesis,
    PlannedFault,
    TargetMissing,
    uses_brokers,
)
from nemeses.aiming.roles import TOPIC, TOPIC_ROLE
from nemeses.aiming.targets import any_topic

SETTINGS = {"segment.ms": "1000", "segment.jitter.ms": "0", "min.cleanable.dirty.ratio": "0"}
ROLL_TIMEOUT_S = 20.0


@contextmanager
def roll_segments(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Roll the segments of a topic. The fault acted if a broker has new segment files."""
    cluster, topic = context.cluster, planned.target.name
    partitions = [(topic, number) for number in cluster.describe(topic)]
    if not partitions:
        raise TargetMissing(f"there is no topic {topic}")
    effect = InjectedFault(target=f"topic {topic}", details={"topic": topic})

    def count() -> dict[int, int]:
        counts = {}
        for broker in cluster.brokers:
            # Another fault may stop it, and then the files in a container cannot be counted.
            with suppress(EnvironmentFailure):
                if broker.running:
                    counts[broker.id] = sum(map(broker.segments, partitions))
        return counts

    def new_segments() -> str | None:
        after = count()
        rolled = (id_ for id_, files in before_it.items() if after.get(id_, 0) > files)
        first = next(rolled, None)
        if first is None:
            return None
        return f"broker {first} had {before_it[first]} segment files of {topic}, and then {after[first]}"

    before_it, compactions = count(), _compactions(cluster, topic)
    effect.mark_injected()
    before = cluster.alter_topic(topic, SETTINGS)
    try:
        try:
            effect.add_proof(
                context.wait_for(new_segments, f"a new segment of {topic}", ROLL_TIMEOUT_S, every_s=0.5)
            )
        except WaitTimeout as error:
            effect.unmet_goals["rolled"] = str(error)
        yield effect
    finally:
        cluster.alter_topic(topic, before)
    effect.proof.append(f"{sum(count().values())} on all brokers at the heal")
    if compacted := _compactions(cluster, topic) - compactions:
        effect.proof.append(f"the log cleaners compacted its replicas {compacted} times")


def _compactions(cluster: Cluster, topic: str) -> int:
    """Return how often the brokers' logs say that the log cleaner has compacted a replica of the topic."""
    line = re.compile(rf"cleaned log {re.escape(topic)}-\d+ ")
    return sum(
        len(line.findall(broker.log_file.read_text(errors="replace", encoding="utf-8")))
        for broker in cluster.brokers
    )


NEMESIS = Nemesis(
    name="roll-segments",
    summary="let the partitions of a topic begin a new segment file every second; no record is deleted",
    past_tense="had its segments rolled",
    proves="brokers have new segment files of the topic",
    needs=frozenset({Ability.OPERATE, Ability.SEGMENTS}),
    occupies=uses_brokers,
    hold_s=8.0,
    recovery_s=2.0,
    draw=any_topic,
    roles={TOPIC: TOPIC_ROLE},
    inject=roll_segments,
    by_default=False,
)
