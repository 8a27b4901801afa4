"""The roles of brokers that can follow @: `kill-broker@controller`, `pause-broker@follower:orders/0`, `kill-broker@2`.

A role without a name gets its name from the seed. `minority`, `majority` and `all` are several brokers, of which each
has the fault at the same time. While a majority is away, partitions have no leader and the controllers no quorum.

Failover: if one broker is gone that has a role, another broker must take over the role.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import TypeVar

from harness.common.errors import UsageError, WaitTimeout
from harness.common.wording import check_name, on_one_line
from harness.runner.nemesis import (
    BROKER,
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    NoTarget,
    PlannedFault,
    Resource,
    RoleChoice,
    Target,
    uses_brokers,
)
from nemeses.aiming.targets import any_group_coordinator, any_leader, any_topic, any_txn_coordinator

T = TypeVar("T")
MOVE_TIMEOUT_S = 30.0
FAILOVER = "failover"
FAILOVER_BROKERS = 3
"""The number of brokers that a failover needs. If one of two brokers stops, it may be the only controller."""


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


def await_failover(
    context: FaultContext, effect: InjectedFault, proof: str, probe: Callable[[], T | None], awaited: str
) -> T | None:
    """Wait until `probe` returns a true value, and return it.

    None if it returns no such value in time. Then the effect has the reason, and the run continues, because a missing
    failover may be a bug of Kafka.

    Args:
        proof: Says what the fault did: `process 4711 ended by SIGKILL`.
        awaited: Completes the sentence "waited 10 s for ...".
    """
    try:
        return context.wait_for(probe, awaited, MOVE_TIMEOUT_S, every_s=0.2)
    except WaitTimeout as error:
        effect.unmet_goals[FAILOVER] = f"{proof}, but {error}"
        return None


def await_broker_in_role(context: FaultContext, find_broker: Callable[[], int], target: Target) -> int:
    """Wait until a broker has the role, and return its number. Raises `WaitTimeout`."""
    return context.wait_for(
        lambda: max(find_broker(), 0), f"a broker to be {target}", MOVE_TIMEOUT_S, every_s=0.2
    )


def other_broker(find_broker: Callable[[], int], first: int) -> int | None:
    """Return the broker that has the role now. None if it is still `first`, or if no broker has the role."""
    now = find_broker()
    return now if now > 0 and now != first else None  # no broker has the number 0
