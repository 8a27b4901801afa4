"""Draws the schedule of a run: which faults are injected, into which targets, when, and for how long.

A schedule is pure, seeded data: the same seed gives the same schedule, byte for byte. It is drawn before the run,
stored in `run.toml`, and replayed from there. Faults that use the same resource overlap only if the user asks for it,
and each has the time to act and to heal.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random
from typing import Any

from harness.cluster import describe_needs
from harness.cluster.kinds.registry import clusters_able_to
from harness.common.errors import UsageError
from harness.runner.churn import LEAD_S, PlannedChange
from harness.runner.nemesis import (
    FaultTargets,
    Nemesis,
    NoTarget,
    NotForThisPipeline,
    PlannedFault,
    Resource,
)

MAX_SLACK_S = 2.0
CALM_S = 8.0
"""The first fault begins after this time, if there is room: the load before it says what is normal."""
MOST_DRAWS = 100
"""How often targets are drawn for faults that overlap, until they are such that the faults can overlap."""
EDGE_SHARE = 0.2
"""A fault that overlaps another begins while the other is active, but not in this share of its time at either end."""
MOST_APART_S = 45.0
"""The longest time between the heals of two faults on brokers that overlap. It is shorter than the time that the first
of them waits until all replicas are in sync.
"""


@dataclass(frozen=True)
class Schedule:
    """The planned faults of a run, ordered by start time, and its churn."""

    planned_faults: tuple[PlannedFault, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)  # by nemesis: why it was left out
    churn: tuple[PlannedChange, ...] = ()

    @classmethod
    def from_tables(
        cls, planned_faults: Iterable[Mapping[str, Any]], churn: Iterable[Mapping[str, Any]]
    ) -> "Schedule":
        """Read the schedule of a stored run from its tables. Raises `UnreadableInput`."""
        return cls(
            tuple(map(PlannedFault.from_table, planned_faults)),
            churn=tuple(map(PlannedChange.from_table, churn)),
        )


class CannotOverlap(NoTarget):
    """Faults that the user wants to overlap cannot. The message says why."""


@dataclass(frozen=True)
class Choice:
    """A nemesis from which a fault is drawn, or several nemeses whose faults overlap."""

    nemeses: tuple[Nemesis, ...]
    weight: float = 1.0

    @property
    def option(self) -> str:
        """The text of `--nemesis`: `kill-broker`, or `kill-broker+partition`."""
        return "+".join(nemesis.option for nemesis in self.nemeses)

    def draw(self, rng: Random, targets: FaultTargets) -> "DrawnTogether":
        """Draw the faults. Each begins while all earlier ones are active, according to the plan.

        Raises `NoTarget`, and `CannotOverlap` if no drawn targets are such that the faults can overlap.
        """
        by_name = {nemesis.name: nemesis for nemesis in self.nemeses}
        why: str | None = None
        for _ in range(MOST_DRAWS):
            faults: list[PlannedFault] = []
            for nemesis in self.nemeses:
                drawn = nemesis.draw_fault(rng, targets)
                end_s = min((fault.end_s for fault in faults), default=0.0)
                begun_s = faults[-1].start_s if faults else 0.0
                margin_s = EDGE_SHARE * (end_s - begun_s)
                start_s = round(rng.uniform(begun_s + margin_s, end_s - margin_s), 2) if faults else 0.0
                faults.append(
                    PlannedFault(nemesis.name, drawn.target, start_s, nemesis.hold_s, drawn.parameters)
                )
            reasons = (why_not_together(*pair, by_name) for pair in combinations(faults, 2))
            why = next(filter(None, reasons), None)
            if why is None:
                recovered_s = max(
                    fault.start_s + targets.reserved_for(fault) + nemesis.duration_s
                    for fault, nemesis in zip(faults, self.nemeses, strict=True)
                )
                occupied = (
                    nemesis.occupies(fault) for fault, nemesis in zip(faults, self.nemeses, strict=True)
                )
                return DrawnTogether(tuple(faults), frozenset().union(*occupied), recovered_s)
        raise CannotOverlap(why)


@dataclass(frozen=True)
class DrawnTogether:
    """The faults of a choice. Their times count from the start of the first one."""

    faults: tuple[PlannedFault, ...]
    resources: frozenset[Resource]
    duration_s: float  # until all are healed and the cluster has recovered

    def at(self, start_s: float) -> list[PlannedFault]:
        """Return the faults with the first one at this time."""
        return [replace(fault, start_s=round(start_s + fault.start_s, 2)) for fault in self.faults]


def draw(
    choices: Sequence[Choice],
    targets: FaultTargets,
    time_limit_s: float,
    rng: Random,
    *,
    chosen_by_user: bool,
    by_weight: bool = False,
) -> Schedule:
    """Draw as many faults as fit into the time limit.

    Go through the choices in a random order, again and again, until no further fault fits. If `by_weight`, draw each
    fault by the weights instead. If `chosen_by_user`, each choice must be possible, and fit at least once. Otherwise
    `left_out` says why a choice was left out.

    Raises:
        UsageError: A choice of the user is not possible or does not fit.
    """
    if not chosen_by_user:
        choices = [choice for choice in choices if not _is_for_other_pipelines(choice, targets)]
    impossible = {choice.option: need for choice in choices if (need := _missing_need(choice, targets))}
    if chosen_by_user and impossible:
        raise UsageError(next(f"{name} {why}: choose another fault" for name, why in impossible.items()))
    possible = [choice for choice in choices if choice.option not in impossible]
    place = _place_by_weight if by_weight else _place_in_rounds
    placed = place(possible, targets, time_limit_s, rng)
    nemeses = [nemesis for choice in possible for nemesis in choice.nemeses]
    planned_faults = _begin_later(
        [planned for _, faults in placed for planned in faults], nemeses, targets, time_limit_s
    )
    scheduled = {option for option, _ in placed}
    missed = [choice.option for choice in possible if choice.option not in scheduled]
    if by_weight:  # a fault may be drawn seldom, but it must have room
        missed = [name for name in missed if name not in _with_room(possible, targets, time_limit_s)]
    if missed:
        needed_s = _one_round_s(possible, targets)
        if chosen_by_user:
            fewer = ", or fewer faults" if len(possible) > 1 else ""
            raise UsageError(
                f"no room for {', '.join(missed)} in {time_limit_s:g} s: choose --time-limit {needed_s} or more{fewer}"
            )
        why = f"did not fit into {time_limit_s:g} s; --time-limit {needed_s} has room for every fault"
        impossible |= dict.fromkeys(missed, why)
    return Schedule(tuple(sorted(planned_faults, key=lambda fault: (fault.start_s, fault.fault))), impossible)


def no_fault_fits_message(nemeses: Iterable[Nemesis], time_limit_s: float) -> str:
    """Return the message that no fault fits into the time limit, and which time limit is long enough."""
    quickest = min(
        (nemesis for nemesis in nemeses if nemesis.by_default), key=lambda nemesis: nemesis.duration_s
    )
    needed_s = math.ceil(LEAD_S + quickest.duration_s)
    return f"no fault fits into {time_limit_s:g} s; --time-limit {needed_s} has room for {quickest.name}"


def must_wait(later: PlannedFault, earlier: PlannedFault, nemeses: Mapping[str, Nemesis]) -> bool:
    """Return whether a fault must not begin before an earlier one is over.

    An earlier fault may be late. Faults that share no resource, or overlap by plan, do not wait for each other.
    """
    return bool(_shared(later, earlier, nemeses)) and not later.overlaps(earlier)


def why_not_together(first: PlannedFault, second: PlannedFault, nemeses: Mapping[str, Nemesis]) -> str | None:
    """Return why two faults cannot overlap; None: they can.

    The reason completes "they cannot overlap, because ...".
    """
    shared = _shared(first, second, nemeses)
    both = {Resource.BROKERS, Resource.WORKERS}
    selfish = [fault.fault for fault in (first, second) if nemeses[fault.fault].occupies(fault) >= both]
    numbers = first.target.brokers & second.target.brokers
    one_value = shared & {Resource.CLOCKS, Resource.DISKS, Resource.FEATURES, Resource.PLACEMENT}
    why = None
    if not shared:
        return None
    if one_value:
        why = f"both change the {min(one_value)}"
    elif selfish:
        why = f"{selfish[0]} needs both the brokers and the workers for itself"
    elif first.fault == second.fault and Resource.MESSAGES in shared:
        why = "both are the same rule for Kafka's messages"
    elif first.target == second.target and (first.fault == second.fault or Resource.BROKERS not in shared):
        why = f"both act on {first.target}"
    elif numbers:
        why = f"both act on broker {min(numbers)}"
    elif Resource.BROKERS in shared and abs(first.end_s - second.end_s) > MOST_APART_S:
        why = (
            f"one is healed more than {MOST_APART_S:g} s before the other, and then waits in vain until all replicas "
            "are in sync"
        )
    return why


def lack_leaders(faults: Sequence[PlannedFault], nemeses: Mapping[str, Nemesis]) -> bool:
    """Return whether two faults act on brokers at the same time, so that a partition may lack a leader for long.

    A fault on the links of a client takes no leader away.
    """
    on_brokers = [fault for fault in faults if fault.target.role != "client"]
    return any(
        first.overlaps(second) and Resource.BROKERS in _shared(first, second, nemeses)
        for first, second in combinations(on_brokers, 2)
    )


def _shared(first: PlannedFault, second: PlannedFault, nemeses: Mapping[str, Nemesis]) -> frozenset[Resource]:
    return nemeses[first.fault].occupies(first) & nemeses[second.fault].occupies(second)


def _is_for_other_pipelines(choice: Choice, targets: FaultTargets) -> bool:
    try:
        choice.draw(Random(0), targets)
    except NotForThisPipeline:
        return True
    except NoTarget:
        return False
    return False


def _missing_need(choice: Choice, targets: FaultTargets) -> str | None:
    """Return what a choice needs and the run does not have; None: nothing is missing."""
    for nemesis in choice.nemeses:
        if need := missing_need(nemesis, targets):
            return need
    failovers = sum(nemesis.least_brokers > 1 for nemesis in choice.nemeses)
    least_brokers = max(nemesis.least_brokers for nemesis in choice.nemeses) + max(0, failovers - 1)
    if len(targets.brokers) < least_brokers:
        return f"needs {least_brokers} brokers or more, so that others can take over from all its targets"
    try:
        choice.draw(Random(0), targets)
    except CannotOverlap as error:
        return f"cannot be, because the faults cannot overlap: {error}"
    return None


def missing_need(nemesis: Nemesis, targets: FaultTargets) -> str | None:
    """Return what a fault needs and the run does not have; None: nothing is missing."""
    needs = nemesis.needs | nemesis.extra_needs.needs
    if not needs <= targets.abilities:
        able = f" ({words})" if (words := clusters_able_to(needs)) else ""
        return f"needs a cluster on which one can {describe_needs(needs - targets.abilities)}{able}"
    try:
        nemesis.draw_fault(Random(0), targets)
    except NoTarget as error:
        return f"needs {error}"
    least_brokers = max(nemesis.least_brokers, nemesis.extra_needs.least_brokers)
    if len(targets.brokers) < least_brokers:
        return f"needs {least_brokers} brokers or more, so that another broker can take over from its target"
    if min(targets.replicas.values(), default=nemesis.least_replicas) < nemesis.least_replicas:
        return (
            f"needs {nemesis.least_replicas} replicas or more of each topic, because it destroys one of them"
        )
    return None


Placed = list[tuple[str, list[PlannedFault]]]
"""The faults of each choice that was drawn, in the order of drawing, each with the option of the choice."""


def _place_in_rounds(
    choices: Sequence[Choice], targets: FaultTargets, time_limit_s: float, rng: Random
) -> Placed:
    free_s: dict[Resource, float] = defaultdict(lambda: LEAD_S)
    placed: Placed = []
    while True:
        order = list(choices)
        rng.shuffle(order)
        before = len(placed)
        for choice in order:
            drawn = choice.draw(rng, targets)
            earliest_s = max((free_s[resource] for resource in drawn.resources), default=LEAD_S)
            slack_s = min(MAX_SLACK_S, time_limit_s - earliest_s - drawn.duration_s)
            if slack_s < 0:
                continue
            # The first fault of each choice starts as early as possible, so that more of them fit.
            is_first = choice.option not in {option for option, _ in placed}
            start_s = earliest_s if is_first else earliest_s + rng.uniform(0, slack_s)
            placed.append((choice.option, drawn.at(start_s)))
            free_s |= dict.fromkeys(drawn.resources, start_s + drawn.duration_s)
        if len(placed) == before:
            return placed


def _begin_later(
    faults: Sequence[PlannedFault], nemeses: Sequence[Nemesis], targets: FaultTargets, time_limit_s: float
) -> list[PlannedFault]:
    """Let all faults begin later, by the time that is left at the end, so that the first begins after `CALM_S`."""
    longest_s = {
        name: max(nemesis.duration_s for nemesis in nemeses if nemesis.name == name)
        for name in {nemesis.name for nemesis in nemeses}
    }
    left_s = time_limit_s - max(
        (fault.start_s + targets.reserved_for(fault) + longest_s[fault.fault] for fault in faults),
        default=math.inf,
    )
    later_s = min(left_s, CALM_S - min((fault.start_s for fault in faults), default=CALM_S))
    later_s = max(math.floor(later_s * 100) / 100, 0.0) if faults else 0.0
    return [replace(fault, start_s=round(fault.start_s + later_s, 2)) for fault in faults]


def _place_by_weight(
    choices: Sequence[Choice], targets: FaultTargets, time_limit_s: float, rng: Random
) -> Placed:
    """Draw one choice after another, each to begin after the one before, until none fits."""
    free_s: dict[Resource, float] = defaultdict(lambda: LEAD_S)
    fitting, begun_s = list(choices), LEAD_S
    placed: Placed = []
    while fitting:
        (choice,) = rng.choices(fitting, [choice.weight for choice in fitting])
        drawn = choice.draw(rng, targets)
        earliest_s = max((free_s[resource] for resource in drawn.resources), default=LEAD_S)
        earliest_s = max(earliest_s, begun_s)
        slack_s = min(MAX_SLACK_S, time_limit_s - earliest_s - drawn.duration_s)
        if slack_s < 0:
            fitting.remove(choice)
            continue
        begun_s = earliest_s + rng.uniform(0, slack_s)
        placed.append((choice.option, drawn.at(begun_s)))
        free_s |= dict.fromkeys(drawn.resources, begun_s + drawn.duration_s)
    return placed


def _with_room(choices: Sequence[Choice], targets: FaultTargets, time_limit_s: float) -> set[str]:
    """Return the options of the choices that would fit if they were drawn first."""
    targets = _slowest(targets)
    durations_s = {choice.option: choice.draw(Random(0), targets).duration_s for choice in choices}
    return {option for option, duration_s in durations_s.items() if LEAD_S + duration_s <= time_limit_s}


def _one_round_s(choices: Sequence[Choice], targets: FaultTargets) -> int:
    """Return a time limit, in seconds, with room for one fault of each choice, in whichever order they are drawn.

    Choices that are connected by resources may have to wait for each other, one after the other.
    """
    connected: list[tuple[frozenset[Resource], float]] = []
    rng, targets = Random(0), _slowest(targets)
    for choice in choices:
        drawn = choice.draw(rng, targets)
        resources, taken_s = drawn.resources, drawn.duration_s
        for other in [other for other in connected if other[0] & drawn.resources]:
            connected.remove(other)
            resources, taken_s = resources | other[0], taken_s + other[1]
        connected.append((resources, taken_s))
    return int(LEAD_S + max(taken_s for _, taken_s in connected)) + 1


def _slowest(targets: FaultTargets) -> FaultTargets:
    """Return the targets with the longest reserved time for every stage, because the stage is not drawn yet."""
    longest_s = max(targets.reserved_s.values(), default=0.0)
    return replace(targets, reserved_s=dict.fromkeys(targets.workers, longest_s))
