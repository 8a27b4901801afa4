"""The schedule of a run: which fault strikes what, when, and for how long.

It is pure, seeded data, drawn before the run, stored with it, and replayed from there: the same seed gives the
same schedule, byte for byte. Faults that need the same resource never overlap, and each has the time to act and
to heal.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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

MOST_SLACK_S = 2.0


@dataclass(frozen=True)
class Schedule:
    """All injections of a run, by start, and the faults that would have been permitted but had no room."""

    injections: tuple[PlannedFault, ...] = ()
    unscheduled: Mapping[str, str] = field(default_factory=dict)
    churn: tuple[PlannedChange, ...] = ()

    @classmethod
    def from_tables(
        cls, injections: Iterable[Mapping[str, Any]], churn: Iterable[Mapping[str, Any]]
    ) -> "Schedule":
        """Read the schedule of a stored run from its tables. Raises `UnreadableInput`."""
        return cls(
            tuple(map(PlannedFault.from_table, injections)), churn=tuple(map(PlannedChange.from_table, churn))
        )


def draw(
    nemeses: Sequence[Nemesis], targets: FaultTargets, time_limit_s: float, rng: Random, *, named: bool
) -> Schedule:
    """Draw as many injections as fit.

    The faults are taken in a random order, again and again while there is room. Faults that were asked for by
    name (`named`) must all fit, and the cluster must permit them, else `UsageError`; of the others, those that
    are left out are told in `unscheduled`.
    """
    if not named:
        nemeses = [one for one in nemeses if not _is_of_another(one, targets)]
    impossible = {one.asked: lacks for one in nemeses if (lacks := _lacks(one, targets))}
    if named and impossible:
        raise UsageError(next(f"{name} {why}: choose another fault" for name, why in impossible.items()))
    possible = [one for one in nemeses if one.asked not in impossible]
    placed = _place(possible, targets, time_limit_s, rng)
    injections = [injection for _, injection in placed]
    there = {asked for asked, _ in placed}
    missed = [one.asked for one in possible if one.asked not in there]
    if missed:
        needed_s = _one_round_s(possible, targets)
        if named:
            fewer = ", or fewer faults" if len(possible) > 1 else ""
            raise UsageError(
                f"{', '.join(missed)} cannot fit in {time_limit_s:g} s: choose --time-limit {needed_s} or more{fewer}"
            )
        why = f"did not fit into {time_limit_s:g} s; --time-limit {needed_s} has room for every fault"
        impossible |= dict.fromkeys(missed, why)
    return Schedule(tuple(sorted(injections, key=lambda one: (one.start_s, one.fault))), impossible)


def too_short(nemeses: Iterable[Nemesis], time_limit_s: float) -> str:
    """Why a run has no fault at all, and which limit would do."""
    quickest = min(nemeses, key=lambda nemesis: nemesis.duration_s)
    needed_s = math.ceil(LEAD_S + quickest.duration_s)
    return f"no fault fits in {time_limit_s:g} s; --time-limit {needed_s} has room for {quickest.name}"


def sequences(injections: Sequence[PlannedFault], nemeses: Mapping[str, Nemesis]) -> list[list[PlannedFault]]:
    """The injections in sequences that share no resource: each can be carried out by itself, one after another."""
    found: list[tuple[set[Resource], list[PlannedFault]]] = []
    for injection in sorted(injections, key=lambda one: one.start_s):
        resources = set(nemeses[injection.fault].occupies(injection))
        sharing = [one for one in found if one[0] & resources]
        together = [one for _, sequence in sharing for one in sequence] + [injection]
        found = [one for one in found if one not in sharing]
        found.append((resources.union(*(taken for taken, _ in sharing)), together))
    return [sorted(sequence, key=lambda one: one.start_s) for _, sequence in found]


def _is_of_another(nemesis: Nemesis, targets: FaultTargets) -> bool:
    """Whether it strikes what this pipeline has nothing of, as most have not."""
    try:
        nemesis.draw_fault(Random(0), targets)
    except NotForThisPipeline:
        return True
    except NoTarget:
        return False
    return False


def _lacks(nemesis: Nemesis, targets: FaultTargets) -> str | None:
    """What a fault needs and the run has not; None: nothing."""
    needs = nemesis.needs | nemesis.extra_needs.needs
    if not needs <= targets.can:
        able = f" ({words})" if (words := clusters_able_to(needs)) else ""
        return f"needs a cluster on which one can {describe_needs(needs - targets.can)}{able}"
    try:
        nemesis.draw_fault(Random(0), targets)
    except NoTarget as error:
        return f"needs {error}"
    least_brokers = max(nemesis.least_brokers, nemesis.extra_needs.least_brokers)
    if len(targets.brokers) < least_brokers:
        return f"needs {least_brokers} brokers or more, so that another can take over from the one it strikes"
    return None


def _place(
    nemeses: Sequence[Nemesis], targets: FaultTargets, time_limit_s: float, rng: Random
) -> list[tuple[str, PlannedFault]]:
    """Injections, each with what asked for it, in the order in which they were drawn."""
    free_s: dict[Resource, float] = defaultdict(lambda: LEAD_S)
    placed: list[tuple[str, PlannedFault]] = []
    while True:
        order = list(nemeses)
        rng.shuffle(order)
        before = len(placed)
        for nemesis in order:
            drawn = nemesis.draw_fault(rng, targets)
            injection = PlannedFault(nemesis.name, drawn.target, 0.0, nemesis.hold_s, drawn.parameters)
            resources = nemesis.occupies(injection)
            earliest_s = max((free_s[resource] for resource in resources), default=LEAD_S)
            slack_s = min(MOST_SLACK_S, time_limit_s - earliest_s - nemesis.duration_s)
            if slack_s < 0:
                continue
            # The first of each fault wastes no room.
            fresh = nemesis.asked not in {asked for asked, _ in placed}
            start_s = earliest_s if fresh else earliest_s + rng.uniform(0, slack_s)
            placed.append((nemesis.asked, replace(injection, start_s=round(start_s, 2))))
            free_s |= dict.fromkeys(resources, start_s + nemesis.duration_s)
        if len(placed) == before:
            return placed


def _one_round_s(nemeses: Sequence[Nemesis], targets: FaultTargets) -> int:
    """The shortest limit with room for each of them once."""
    taken_s: dict[frozenset[Resource], float] = defaultdict(float)
    rng = Random(0)
    for nemesis in nemeses:
        drawn = nemesis.draw_fault(rng, targets)
        injection = PlannedFault(nemesis.name, drawn.target, 0.0, nemesis.hold_s, drawn.parameters)
        taken_s[nemesis.occupies(injection)] += nemesis.duration_s
    resources = {resource for occupied in taken_s for resource in occupied}
    longest_s = max(sum(s for occupied, s in taken_s.items() if one in occupied) for one in resources)
    return int(LEAD_S + longest_s) + 1
