"""The schedule of a run: which fault injections what, when, and for how long.

It is pure, seeded data, drawn before the run, stored with it, and replayed from there: the same
seed gives the same schedule, byte for byte. Faults of one lane never overlap, and each has the
time to act and to heal; only one lane touches brokers and their links, so that no partition is
ever without a leader for want of replicas.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from harness.cluster import Cluster, Network
from harness.errors import UnreadableInput, UsageError
from harness.runner.processes import Processes

LEAD_S = 3.0
"""Undisturbed work before the first fault, so that there is something to break."""


class Lane(StrEnum):
    """Faults of different lanes may overlap, those of one never do."""

    CLUSTER = "cluster"
    WORKER = "worker"


@dataclass(frozen=True)
class Injection:
    """One fault. Times are seconds since the feeder began."""

    fault: str
    target: str  # by role, as `harness.runner.schedule` draws it: leader:TOPIC/P, worker:NAME, ...
    start_s: float
    hold_s: float
    step: str | None = None  # where a worker is struck

    def as_table(self) -> dict[str, Any]:
        """As it stands in `test.toml`."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "Injection":
        """The inverse of `as_table`; raises `UnreadableInput`."""
        try:
            return cls(
                fault=str(table["fault"]),
                target=str(table["target"]),
                start_s=float(table["start_s"]),
                hold_s=float(table["hold_s"]),
                step=table.get("step"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableInput(
                f"a strike of the schedule cannot be read: {error!r} in {dict(table)}"
            ) from error

    def __str__(self) -> str:
        where = f" at {self.step}" if self.step else ""
        return f"{self.start_s:5.1f} s  {self.fault}  {self.target}{where}, for {self.hold_s:g} s"


@dataclass(frozen=True)
class FaultTargets:
    """What can be struck: known before anything runs."""

    brokers: tuple[int, ...]
    places: tuple[tuple[str, int], ...]  # the partitions of the pipeline's topics
    workers: Mapping[str, tuple[str, ...]]  # by stage
    groups: tuple[str, ...]
    slots: tuple[str, ...]  # the client slots that workers begin in
    stage: str | None = None  # strike workers of this stage only
    step: str | None = None  # and at this step


@dataclass
class Effect:
    """What a fault did: filled in while it is on."""

    target: str
    proof: list[str] = field(default_factory=list)
    acted: bool = False
    lacking: dict[str, str] = field(default_factory=dict)  # goals that it should have reached, and did not

    def saw(self, evidence: str) -> None:
        """Add a proof that it acted."""
        if evidence:
            self.proof.append(evidence)
            self.acted = True


@dataclass(frozen=True)
class FaultContext:
    """What a fault may touch."""

    cluster: Cluster
    network: Network
    processes: Processes


@dataclass(frozen=True)
class Nemesis:
    """A fault: how it is drawn, and how it is carried out.

    `strike` is a context manager: entering breaks something and proves it, leaving puts it right,
    and says in `Effect` whether it acted.
    """

    name: str
    summary: str
    lane: Lane
    hold_s: float  # shorter would only be a stall
    recovery_s: float  # from the heal until all is as it was
    draw: Callable[
        [Random, FaultTargets], tuple[str, str | None]
    ]  # the target, and the step if it is a worker's
    strike: Callable[[FaultContext, Injection], AbstractContextManager[Effect]]
    keeps_slot: bool = False  # what it injections lives on beside its replacement, which needs a slot more

    @property
    def room_s(self) -> float:
        """What it takes from the time limit."""
        return self.hold_s + self.recovery_s


@dataclass(frozen=True)
class Schedule:
    """All injections of a run, by start, and the faults that would have been permitted but had no room."""

    injections: tuple[Injection, ...] = ()
    unscheduled: Mapping[str, str] = field(default_factory=dict)


def draw(
    nemeses: Sequence[Nemesis], grounds: FaultTargets, time_limit_s: float, rng: Random, *, named: bool
) -> Schedule:
    """Draw as many injections as fit.

    Each lane takes its faults in a random order, again and again while there is room. Faults that
    were asked for by name (`named`) must all fit, else `UsageError`; of the others, those without
    room are told in `unscheduled`.
    """
    injections: list[Injection] = []
    unscheduled: dict[str, str] = {}
    for lane in Lane:
        mine = [nemesis for nemesis in nemeses if nemesis.lane is lane]
        drawn, missed = _lane(mine, grounds, time_limit_s, rng)
        injections += drawn
        unscheduled |= missed
    if named and unscheduled:
        names = ", ".join(unscheduled)
        needed = LEAD_S + max(sum(n.room_s for n in nemeses if n.lane is lane) for lane in Lane)
        raise UsageError(
            f"{names} cannot fit in {time_limit_s:g} s; use --time-limit {int(needed) + 1} or fewer faults"
        )
    return Schedule(tuple(sorted(injections, key=lambda strike: (strike.start_s, strike.fault))), unscheduled)


def too_short(nemeses: Iterable[Nemesis], time_limit_s: float) -> str:
    """Why a run has no fault at all, and which limit would do."""
    quickest = min(nemeses, key=lambda nemesis: nemesis.room_s)
    needed_s = math.ceil(LEAD_S + quickest.room_s)
    return f"no fault fits in {time_limit_s:g} s; --time-limit {needed_s} has room for {quickest.name}"


def _lane(
    nemeses: Sequence[Nemesis], grounds: FaultTargets, time_limit_s: float, rng: Random
) -> tuple[list[Injection], dict[str, str]]:
    """The injections of one lane, and why each fault that is not among them is not."""
    injections: list[Injection] = []
    clock_s = LEAD_S
    while True:
        order = list(nemeses)
        rng.shuffle(order)
        before = len(injections)
        for nemesis in order:
            if clock_s + nemesis.room_s > time_limit_s:
                continue
            slack_s = min(2.0, time_limit_s - clock_s - nemesis.room_s)
            tight = len(injections) < len(nemeses)  # the first round wastes no room
            start_s = clock_s if tight else clock_s + rng.uniform(0, slack_s)
            target, step = nemesis.draw(rng, grounds)
            injections.append(Injection(nemesis.name, target, round(start_s, 2), nemesis.hold_s, step))
            clock_s = start_s + nemesis.room_s
        if len(injections) == before:
            break
    drawn = {strike.fault for strike in injections}
    needed_s = LEAD_S + sum(nemesis.room_s for nemesis in nemeses)
    why = f"no room in {time_limit_s:g} s; --time-limit {int(needed_s) + 1} has room for every fault"
    return injections, {nemesis.name: why for nemesis in nemeses if nemesis.name not in drawn}
