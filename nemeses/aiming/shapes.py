"""The shapes of network faults: which brokers a fault separates, or which client from which broker.

A shape is independent of what the fault does to the links: `partition@ring` cuts the links that `slow-network@ring`
makes slow. Minority, ring and bridge are from Jepsen, which calls them majority, majorities-ring and bridge.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random

from harness.cluster import Ability, describe_needs
from harness.cluster.config import MAX_VOTERS, voters_of
from harness.cluster.kinds.registry import clusters_able_to
from harness.common.errors import FaultFailed, UsageError
from harness.common.wording import join_words
from harness.network import client_link, links_between, peer_link
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    NoTarget,
    PlannedFault,
    Resource,
    RoleChoice,
    Target,
    uses_brokers,
)
from nemeses.aiming.roles import minority
from nemeses.aiming.targets import broker_in_use, choose, worker_at_endpoint

CLIENT = "client"
Pairs = list[tuple[int, int]]
"""Brokers that a fault separates from each other: in each pair, one of the first side and one of the other."""


@dataclass(frozen=True)
class Shape:
    """A shape of brokers. Its target names brokers by their numbers: `pair:1-2`."""

    # Returns the brokers of a target from all, which are in a drawn order.
    select: Callable[[Sequence[int]], Sequence[int]]
    # Returns the pairs from the brokers of a target, and from all.
    separate: Callable[[Sequence[int], Sequence[int]], Pairs]
    describe: Callable[[Sequence[int]], tuple[str, str]]  # returns both sides in words
    named_by: str
    least_brokers: int = 2
    halts: bool = False  # some partition may have too few replicas in sync, or no leader, until the heal


def ring(order: Sequence[int], brokers: Sequence[int] = ()) -> Pairs:
    """Separate each broker from all but its nearest neighbours in a ring, so that it sees a majority.

    No two brokers see the same majority. With three brokers, `bridge` has this property, and a ring separates none.
    """
    size = len(order)
    nearest = (size // 2 + 1) // 2  # on each side
    apart = [(i, j) for i in range(size) for j in range(i + 1, size) if nearest < j - i < size - nearest]
    return [(order[i], order[j]) for i, j in apart]


def bridge(order: Sequence[int], brokers: Sequence[int] = ()) -> Pairs:
    """Separate two halves of the brokers. The first broker of `order` sees both."""
    first, second = _halves(order)
    return list(product(first, second))


def _halves(order: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    middle = (len(order) + 1) // 2
    return order[1:middle], order[middle:]


def from_others(chosen: Sequence[int], brokers: Sequence[int]) -> Pairs:
    """Separate the chosen brokers from all others."""
    return [(broker, other) for broker in chosen for other in brokers if other not in chosen]


def from_controllers(chosen: Sequence[int], brokers: Sequence[int]) -> Pairs:
    """Separate the chosen brokers from the controllers."""
    return list(product(chosen, voters_of(brokers)))


def _names(brokers: Sequence[int]) -> str:
    several = len(brokers) > 1
    return f"broker{'s' * several} {join_words(map(str, brokers), most=len(brokers))}"


def _describe_ring(order: Sequence[int]) -> tuple[str, str]:
    return f"each broker of the ring {_text(order)}", "the brokers that are not its neighbours"


def _describe_bridge(order: Sequence[int]) -> tuple[str, str]:
    first, second = _halves(order)
    return _names(first), f"{_names(second)}, except through broker {order[0]}"


def _one(order: Sequence[int]) -> Sequence[int]:
    return order[:1]


SHAPES: Mapping[str, Shape] = {
    "isolate": Shape(_one, from_others, lambda chosen: (_names(chosen), "its peers"), "NUMBER"),
    "pair": Shape(
        lambda order: sorted(order[:2]),
        lambda chosen, brokers: [(chosen[0], chosen[1])],
        lambda chosen: (_names(chosen[:1]), _names(chosen[1:])),
        "NUMBER-NUMBER",
    ),
    "minority": Shape(
        lambda order: sorted(minority(order)),
        from_others,
        lambda chosen: (_names(chosen), "the majority"),
        "NUMBER-...",
        least_brokers=3,
        halts=True,
    ),
    "ring": Shape(
        lambda order: order, ring, _describe_ring, "NUMBER-NUMBER-...", least_brokers=4, halts=True
    ),
    "bridge": Shape(
        lambda order: order, bridge, _describe_bridge, "NUMBER-NUMBER-...", least_brokers=3, halts=True
    ),
    "controllers": Shape(
        _one, from_controllers, lambda chosen: (_names(chosen), "the controllers"), "NUMBER-...", halts=True
    ),
}
"""The shapes of brokers, by role."""


def _text(brokers: Sequence[int]) -> str:
    return "-".join(map(str, brokers))


def _draw(role: str) -> Callable[[Random, FaultTargets, str], Target]:
    shape = SHAPES[role]

    def draw(rng: Random, targets: FaultTargets, name: str) -> Target:
        if Ability.PEER_LINKS not in targets.abilities:
            needs = {Ability.PEER_LINKS}
            raise NoTarget(f"a cluster on which one can {describe_needs(needs)} ({clusters_able_to(needs)})")
        if len(targets.brokers) < shape.least_brokers:
            instead = " (with three, bridge is the same)" if role == "ring" else ""
            raise NoTarget(f"{shape.least_brokers} brokers or more{instead}")
        brokers = targets.brokers
        possible = _without_controllers(brokers) if role == "controllers" else brokers
        if not name:
            return Target(role, _text(shape.select(rng.sample(possible, len(possible)))))
        _check(role, name, possible, shape.select(possible))
        return Target(role, name)

    return draw


def _without_controllers(brokers: Sequence[int]) -> Sequence[int]:
    controllers = voters_of(brokers)
    if others := [broker for broker in brokers if broker not in controllers]:
        return others
    raise NoTarget(
        f"a broker that is no controller (the controllers are {_names(controllers)}): choose --brokers {MAX_VOTERS + 1}"
    )


def _check(role: str, name: str, possible: Sequence[int], example: Sequence[int]) -> None:
    """Raise `UsageError` if a name of a shape is not that of different brokers, or not of as many as there must be."""
    numbers = name.split("-")
    count = range(1, len(possible) + 1) if role == "controllers" else (len(example),)
    known = {str(number) for number in possible}
    if len(set(numbers)) < len(numbers) or len(numbers) not in count or not set(numbers) <= known:
        what = "brokers that are no controllers" if role == "controllers" else "different brokers"
        raise UsageError(
            f"{role}:{name} does not name {what} of the run ({', '.join(sorted(known))}): write for example "
            f"{role}:{_text(example)}"
        )


def _draw_client(rng: Random, targets: FaultTargets, name: str) -> Target:
    endpoint = choose(rng, targets.endpoints, "a pipeline whose workers run on this machine")
    drawn = f"{endpoint}-{rng.choice(targets.brokers)}"
    names = {f"{each}-{broker}" for each in targets.endpoints for broker in targets.brokers}
    if name and name not in names:
        raise UsageError(f"client:{name} is no client endpoint and broker: write for example client:{drawn}")
    return Target(CLIENT, name or drawn)


SHAPE_ROLES: Mapping[str, RoleChoice] = {
    **{role: RoleChoice(_draw(role), shape.named_by) for role, shape in SHAPES.items()},
    CLIENT: RoleChoice(_draw_client, "ENDPOINT-NUMBER"),
}
"""The shapes that can follow @, by name."""


def any_shape(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw one of the shapes that leave the pipeline able to go on: isolate, pair or client."""
    peers = len(targets.brokers) > 1 and Ability.PEER_LINKS in targets.abilities
    of_peers = ("isolate", "pair") if peers else ()
    kinds = (*of_peers, *((CLIENT,) if targets.endpoints else ()))
    kind = choose(rng, kinds, "a second broker, or a pipeline whose workers run on this machine")
    broker, *peer = rng.sample(targets.brokers, min(2, len(targets.brokers)))
    if kind == "isolate":
        return DrawnFault(Target(kind, str(broker)))
    if kind == "pair":
        return DrawnFault(Target(kind, f"{min(broker, *peer)}-{max(broker, *peer)}"))
    return DrawnFault(Target(kind, f"{rng.choice(targets.endpoints)}-{broker}"))


def uses_links(planned: PlannedFault) -> frozenset[Resource]:
    """A fault on links occupies BROKERS. If the pipeline may halt, it occupies WORKERS too: they come to no step."""
    return uses_brokers(planned) | (
        frozenset({Resource.WORKERS}) if _may_halt(planned.target) else frozenset()
    )


def _may_halt(target: Target) -> bool:
    return target.role in SHAPES and SHAPES[target.role].halts and "-" in target.name


@dataclass(frozen=True)
class SeparatedLinks:
    """The links between two sides."""

    links: tuple[str, ...]
    from_first: frozenset[str]  # those on which the first side dials
    side: str  # in words
    other: str
    details: Mapping[str, str] = field(default_factory=dict)  # for the fault report

    @property
    def subject(self) -> str:
        """The first side as the subject of "... was cut off"."""
        return f"each of {self.side}" if self.side.startswith("brokers") else self.side


def separate(context: FaultContext, target: Target) -> SeparatedLinks:
    """Return the links of a target.

    Some links between two brokers do not exist, because only some brokers are controllers. They are left out. Raises
    `FaultFailed`.
    """
    if target.role == CLIENT:
        return _client_from_broker(context, target)
    if target.role not in SHAPES:
        raise FaultFailed(f"there is no shape {target.role} (target {target})")
    shape = SHAPES[target.role]
    chosen = [int(number) for number in target.name.split("-")]
    pairs = shape.separate(chosen, [broker.id for broker in context.cluster.brokers])
    links = _links(pairs, context.cluster.network.links, only_controllers=target.role == "controllers")
    side, other = shape.describe(chosen)
    brokers = {"brokers": ", ".join(map(str, chosen))} if _may_halt(target) else {"broker": str(chosen[0])}
    return SeparatedLinks(
        tuple(links),
        frozenset(
            link for first, second in pairs for link in links if link.startswith(peer_link(first, second, ""))
        ),
        side,
        other,
        {**brokers, "role": target.role},
    )


def _links(pairs: Pairs, existing: Collection[str], *, only_controllers: bool) -> list[str]:
    known = set(existing)
    return [
        link
        for first, second in pairs
        for link in links_between(first, second)
        if link in known and (not only_controllers or link == peer_link(first, second, "ctl"))
    ]


def _client_from_broker(context: FaultContext, target: Target) -> SeparatedLinks:
    endpoint, _, drawn = target.name.rpartition("-")
    member = worker_at_endpoint(context.processes, endpoint)
    broker = broker_in_use(context, member.endpoint, int(drawn))
    link = client_link(member.endpoint, broker)
    details = {"worker": member.journal, "broker": str(broker), "role": CLIENT}
    return SeparatedLinks((link,), frozenset({link}), f"worker {member.journal}", f"broker {broker}", details)
