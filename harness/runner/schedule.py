"""Draws the schedule of a run: which faults are injected, into which targets, when, and for how long.

A schedule is pure, seeded data: the same seed gives the same schedule, byte for byte. It is drawn before the run,
stored in `run.toml`, and replayed from there. Faults that use the same resource never overlap, and each has the time to
act and to heal.
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

MAX_SLACK_S = 2.0


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


def draw(
    nemeses: Sequence[Nemesis],
    targets: FaultTargets,
    time_limit_s: float,
    rng: Random,
    *,
    chosen_by_user: bool,
) -> Schedule:
    """Draw as many faults as fit into the time limit.

    Go through the nemeses in a random order, again and again, until no further fault fits. If `chosen_by_user`, each
    nemesis must be possible and fit at least once. Otherwise `left_out` says why a nemesis was left out.

    Raises:
        UsageError: A nemesis that the user chose is not possible or does not fit.
    """
    if not chosen_by_user:
        nemeses = [nemesis for nemesis in nemeses if not _is_for_other_pipelines(nemesis, targets)]
    impossible = {nemesis.option: need for nemesis in nemeses if (need := _missing_need(nemesis, targets))}
    if chosen_by_user and impossible:
        raise UsageError(next(f"{name} {why}: choose another fault" for name, why in impossible.items()))
    possible = [nemesis for nemesis in nemeses if nemesis.option not in impossible]
    drawn_faults = _place_faults(possible, targets, time_limit_s, rng)
    planned_faults = [planned for _, planned in drawn_faults]
    scheduled = {option for option, _ in drawn_faults}
    missed = [nemesis.option for nemesis in possible if nemesis.option not in scheduled]
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


def group_by_shared_resource(
    faults: Sequence[PlannedFault], nemeses: Mapping[str, Nemesis]
) -> list[list[PlannedFault]]:
    """Group planned faults into sequences. Faults of different sequences share no resource, so they can overlap."""
    groups: list[tuple[set[Resource], list[PlannedFault]]] = []
    for fault in sorted(faults, key=lambda fault: fault.start_s):
        resources = set(nemeses[fault.fault].occupies(fault))
        overlapping = [group for group in groups if group[0] & resources]
        merged = [earlier for _, sequence in overlapping for earlier in sequence] + [fault]
        groups = [group for group in groups if group not in overlapping]
        groups.append((resources.union(*(occupied for occupied, _ in overlapping)), merged))
    return [sorted(sequence, key=lambda fault: fault.start_s) for _, sequence in groups]


def _is_for_other_pipelines(nemesis: Nemesis, targets: FaultTargets) -> bool:
    try:
        nemesis.draw_fault(Random(0), targets)
    except NotForThisPipeline:
        return True
    except NoTarget:
        return False
    return False


def _missing_need(nemesis: Nemesis, targets: FaultTargets) -> str | None:
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
    return None


def _place_faults(
    nemeses: Sequence[Nemesis], targets: FaultTargets, time_limit_s: float, rng: Random
) -> list[tuple[str, PlannedFault]]:
    """Return planned faults in the order of drawing, each with the option of its nemesis."""
    free_s: dict[Resource, float] = defaultdict(lambda: LEAD_S)
    drawn_faults: list[tuple[str, PlannedFault]] = []
    while True:
        order = list(nemeses)
        rng.shuffle(order)
        before = len(drawn_faults)
        for nemesis in order:
            drawn = nemesis.draw_fault(rng, targets)
            planned = PlannedFault(nemesis.name, drawn.target, 0.0, nemesis.hold_s, drawn.parameters)
            resources = nemesis.occupies(planned)
            earliest_s = max((free_s[resource] for resource in resources), default=LEAD_S)
            slack_s = min(MAX_SLACK_S, time_limit_s - earliest_s - nemesis.duration_s)
            if slack_s < 0:
                continue
            # The first fault of each nemesis starts as early as possible, so that more nemeses fit.
            is_first = nemesis.option not in {option for option, _ in drawn_faults}
            start_s = earliest_s if is_first else earliest_s + rng.uniform(0, slack_s)
            drawn_faults.append((nemesis.option, replace(planned, start_s=round(start_s, 2))))
            free_s |= dict.fromkeys(resources, start_s + nemesis.duration_s)
        if len(drawn_faults) == before:
            return drawn_faults


def _one_round_s(nemeses: Sequence[Nemesis], targets: FaultTargets) -> int:
    """Return the shortest time limit, in seconds, with room for one fault of each nemesis."""
    taken_s: dict[frozenset[Resource], float] = defaultdict(float)
    rng = Random(0)
    for nemesis in nemeses:
        drawn = nemesis.draw_fault(rng, targets)
        planned = PlannedFault(nemesis.name, drawn.target, 0.0, nemesis.hold_s, drawn.parameters)
        taken_s[nemesis.occupies(planned)] += nemesis.duration_s
    resources = {resource for occupied in taken_s for resource in occupied}
    longest_s = max(
        sum(s for occupied, s in taken_s.items() if resource in occupied) for resource in resources
    )
    return int(LEAD_S + longest_s) + 1
