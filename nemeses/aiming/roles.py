"""The roles of brokers that can follow @: `kill-broker@controller`, `pause-broker@follower:orders/0`, `kill-broker@2`.

A role without a name gets its name from the seed. `minority`, `majority` and `all` are several brokers, of which each
has the fault at the same time. While a majority is away, partitions have no leader and the controllers no quorum.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from harness.common.errors import UsageError
from harness.common.names import check_name, on_one_line
from harness.runner.nemesis import (
    BROKER,
    DrawnFault,
    FaultTargets,
    NoTarget,
    PlannedFault,
    Resource,
    RoleChoice,
    Target,
)
from harness.runner.occupied import uses_brokers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.targets import any_group_coordinator, any_leader, any_topic, any_txn_coordinator


def minority(brokers: Sequence[int]) -> Sequence[int]:
    """Return the largest minority of the brokers: the first ones. Empty if there are fewer than three."""
    return brokers[: (len(brokers) - 1) // 2]


def majority(brokers: Sequence[int]) -> Sequence[int]:
    """Return the smallest majority of the brokers: the first ones."""
    return brokers[: len(brokers) // 2 + 1]


def broker_numbers(target: Target) -> list[int] | None:
    """Return the brokers that a target has from its schedule. None: who has the role is not known before the fault."""
    return [int(number) for number in target.name.split(",")] if target.role in BY_NUMBER else None


def require_numbers(role: str, name: str, brokers: Sequence[int]) -> None:
    """Raise `UsageError` unless `name` lists a minority, a majority or all of the brokers, each once, with commas."""
    least = {"minority": 1, "majority": len(majority(brokers)), "all": len(brokers)}[role]
    most = len(minority(brokers)) if role == "minority" else len(brokers)
    numbers = name.split(",")
    decimal = all(map(str.isdecimal, numbers))
    if not decimal or len(set(numbers)) < len(numbers) or not least <= len(numbers) <= most:
        how_many = str(least) if least == most else f"{least} to {most}"
        raise UsageError(
            f"{role}:{on_one_line(name)} is not {BY_NUMBER[role]}: write {how_many} of their numbers, with commas"
        )


def describe_role(target: Target) -> str:
    """Return the role in words: `active controller`, `leader of orders/0`. Empty if the target is only a number."""
    if target.role == "controller":
        return "active controller"
    return BY_NUMBER.get(target.role, f"{target.role} of {target.name}")


def uses_brokers_in_role(planned: PlannedFault) -> frozenset[Resource]:
    """A fault on several brokers occupies WORKERS too: meanwhile workers come to no step, and no broker answers."""
    several = len(broker_numbers(planned.target) or ()) > 1
    return uses_brokers(planned) | (frozenset({Resource.WORKERS}) if several else frozenset())


def _named(
    role: str,
    kind: str,
    named_by: str,
    draw_any: Callable[[Random, FaultTargets], DrawnFault],
    names_of: Callable[[FaultTargets], Collection[str]],
) -> RoleChoice:
    def draw(rng: Random, targets: FaultTargets, name: str) -> Target:
        if not name:
            return Target(role, draw_any(rng, targets).target.name)
        check_name(kind, name, names_of(targets))
        return Target(role, name)

    return RoleChoice(draw, named_by)


def _several(role: str, select: Callable[[Sequence[int]], Sequence[int]]) -> RoleChoice:
    def draw(rng: Random, targets: FaultTargets, _: str) -> Target:
        if len(targets.brokers) < FAILOVER_BROKERS:
            raise NoTarget(f"{FAILOVER_BROKERS} brokers or more")
        in_order = rng.sample(targets.brokers, len(targets.brokers))
        return Target(role, ",".join(map(str, sorted(select(in_order)))))

    return RoleChoice(draw)


def _any_broker(rng: Random, targets: FaultTargets) -> DrawnFault:
    return DrawnFault(Target(BROKER, str(rng.choice(targets.brokers))))


def _partitions(targets: FaultTargets) -> list[str]:
    return [f"{topic}/{partition}" for topic, partition in targets.topic_partitions]


BY_NUMBER: Mapping[str, str] = {
    BROKER: "",
    "minority": "a minority of the brokers",
    "majority": "a majority of the brokers",
    "all": "the whole cluster",
}
"""The roles whose brokers are known before the run, each in words. A target of these roles has their numbers."""
ROLES: Mapping[str, RoleChoice] = {
    "leader": _named("leader", "partition", "TOPIC/PARTITION", any_leader, _partitions),
    "follower": _named("follower", "partition", "TOPIC/PARTITION", any_leader, _partitions),
    "txn-coordinator": _named(
        "txn-coordinator", "transactional id", "ID", any_txn_coordinator, lambda targets: targets.ids
    ),
    "group-coordinator": _named(
        "group-coordinator",
        "group",
        "GROUP",
        any_group_coordinator,
        lambda targets: list(targets.groups.values()),
    ),
    "controller": RoleChoice(lambda rng, targets, name: Target("controller")),
    BROKER: _named(
        BROKER, "broker", "NUMBER", _any_broker, lambda targets: [str(number) for number in targets.brokers]
    ),
    "minority": _several("minority", minority),
    "majority": _several("majority", majority),
    "all": _several("all", lambda in_order: in_order),
}
"""The roles of brokers that can follow @, by name."""
TOPIC = "topic"
"""The role of the target of faults on every partition of a topic."""
TOPIC_ROLE = _named(TOPIC, "topic", "TOPIC", any_topic, lambda targets: targets.topics)
