"""add-partitions: an operator raises the number of partitions of a topic while the pipeline runs.

Kafka cannot remove partitions, so there is nothing to heal. The records of a key that are written later can be in
another partition than those before. A consumer notices new partitions at its next refresh of metadata.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from random import Random

from harness.cluster import Ability
from harness.common.errors import UsageError, WaitTimeout
from harness.common.wording import check_name, join_words, on_one_line
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    NoTarget,
    PlannedFault,
    RoleChoice,
    Target,
    TargetMissing,
    uses_brokers,
)
from nemeses.aiming.roles import TOPIC
from nemeses.aiming.targets import topic_in_run

MORE = "more"
"""The parameter that says how many partitions the fault adds."""
MOST_PARTITIONS_MORE = 100
KNOWN_TIMEOUT_S = 30.0
"""More than an election takes. A new partition on a broker that has just ended waits for one."""


@contextmanager
def add_partitions(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Add partitions to a topic. The fault acted if every live broker knows the new ones, each with a leader."""
    cluster, topic = context.cluster, topic_in_run(context, planned.target.name)
    before = len(cluster.describe(topic))
    if not before:
        raise TargetMissing(f"there is no topic {topic}")
    after = before + int(planned.parameters[MORE])
    effect = InjectedFault(
        target=f"topic {topic}", details={"topic": topic, "partitions_before": str(before)}
    )
    effect.mark_injected()
    begun_s = time.monotonic()
    known: dict[int, int] = {}

    def brokers_that_know() -> list[int] | None:
        views = cluster.describe_by_broker(topic)
        known.clear()
        known.update(
            {broker: sum(view.leader >= 0 for view in seen.values()) for broker, seen in views.items()}
        )
        return sorted(known) if known and all(count >= after for count in known.values()) else None

    try:
        cluster.add_partitions(topic, after)
        brokers = context.wait_for(
            brokers_that_know,
            f"every broker to know {after} partitions of {topic}, each with a leader",
            KNOWN_TIMEOUT_S,
            last_seen=lambda: ", ".join(f"broker {broker}: {count}" for broker, count in known.items()),
        )
    except WaitTimeout as error:
        effect.unmet_goals["partitions-added"] = str(error)
    else:
        effect.details["partitions_after"] = str(after)
        effect.add_proof(
            f"{topic} had {before} partitions, and has {after} since {context.run_time_s():.1f} s"
        )
        named = join_words(map(str, brokers), most=len(brokers))
        effect.proof.append(
            f"{time.monotonic() - begun_s:.1f} s after the request, each of the brokers {named} knew all of them, each "
            "with a leader"
        )
    yield effect


def _may_grow(targets: FaultTargets, topics: Collection[str]) -> list[str]:
    return [topic for topic in targets.own_topics if topic in topics and topic not in targets.fixed_topics]


def _choose(rng: Random, targets: FaultTargets, topics: Collection[str], kind: str) -> Target:
    """Draw one of the topics that may get partitions. Raises `NoTarget` with the reason if there is none."""
    candidates = _may_grow(targets, topics)
    if candidates:
        return Target(TOPIC, rng.choice(candidates))
    fixed = next((topic for topic in targets.own_topics if topic in topics), None)
    why = f": {fixed} must not get any, because {targets.fixed_topics[fixed]}" if fixed else ""
    raise NoTarget(f"{kind} that may get partitions{why}")


def _topics_of(by_stage: Sequence[tuple[str, ...]]) -> set[str]:
    return {topic for topics in by_stage for topic in topics}


def _inputs(targets: FaultTargets) -> set[str]:
    return _topics_of([*targets.reads.values()])


def _outputs(targets: FaultTargets) -> set[str]:
    return _topics_of([*targets.writes.values()])


def _draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw an input topic: one that no stage writes, if there is one."""
    inputs = _inputs(targets)
    fed = inputs - _outputs(targets)
    topics = fed if _may_grow(targets, fed) else inputs
    return DrawnFault(_choose(rng, targets, topics, "a topic that a stage reads and"))


def _draw_named(rng: Random, targets: FaultTargets, name: str) -> Target:
    """Return the topic of that name; without a name, draw a topic. Raises `UsageError` or `NoTarget`."""
    own = targets.own_topics
    if not name:
        return _choose(rng, targets, own, "a topic")
    shown = on_one_line(name)
    choices = _may_grow(targets, own)
    several = "one of " if len(choices) > 1 else ""
    instead = f"name {several}{', '.join(choices)}" if choices else "choose another fault"
    if name in targets.tables:
        raise UsageError(f"{shown} is a table of a database, and has no partitions: {instead}")
    if name.startswith("__") and name not in own:
        raise UsageError(
            f"{shown} is an internal topic of Kafka, whose number of partitions must not change: {instead}"
        )
    check_name("topic", name, own)
    if name in targets.fixed_topics:
        raise UsageError(f"{shown} must not get partitions, because {targets.fixed_topics[name]}: {instead}")
    return Target(TOPIC, name)


def _any_of(topics_of: Callable[[FaultTargets], Collection[str]], kind: str) -> RoleChoice:
    return RoleChoice(lambda rng, targets, name: _choose(rng, targets, topics_of(targets), kind))


NEMESIS = Nemesis(
    name="add-partitions",
    summary="add 1 to 3 partitions to a topic that a stage reads, or to @TOPIC; Kafka cannot remove them again",
    past_tense="got more partitions",
    proves="every broker knows the new partitions, each with a leader",
    needs=frozenset({Ability.ADD_PARTITIONS}),
    occupies=uses_brokers,
    hold_s=6.0,
    recovery_s=6.0,
    draw=_draw,
    roles={
        TOPIC: RoleChoice(_draw_named, "TOPIC"),
        "inputs": _any_of(_inputs, "a topic that a stage reads and"),
        "outputs": _any_of(_outputs, "a topic that a stage writes and"),
    },
    role_of_names=TOPIC,
    parameters={MORE: range(1, 4)},
    limits={MORE: (1, MOST_PARTITIONS_MORE)},
    inject=add_partitions,
    by_default=False,
)
