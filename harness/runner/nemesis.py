"""The interface of a fault: how it is drawn, what it needs and takes for itself, how it is carried out.

A fault (`Nemesis`) is a context manager around pure data (`PlannedFault`): entering breaks something and proves it,
leaving puts it right. Targets are roles, drawn before a run and found out when the fault strikes.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any

from harness.cluster import ALL_ABILITIES, Cluster, Need
from harness.common.errors import UnreadableInput
from harness.databases.backlog import Backlog, no_backlog
from harness.databases.interface import Service
from harness.model.pipeline import StageSpec, TopicPartition
from harness.model.vocabulary import STEPS_WITH_INPUT, Premise
from harness.runner.processes import Processes


class Resource(StrEnum):
    """What a fault takes for itself: two that need the same never overlap."""

    BROKERS = "brokers"  # one broker or its links at a time, so that no partition lacks a leader
    WORKERS = "workers"
    SERVICES = "services"  # the servers of the pipeline's stores


@dataclass(frozen=True)
class Target:
    """Whom a fault strikes, by role: `leader` of `invoices/0`, `txn-coordinator` of `shop-1`."""

    role: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.role}:{self.name}" if self.name else self.role

    @classmethod
    def parse(cls, text: str) -> "Target":
        """The inverse of `str`."""
        role, _, name = text.partition(":")
        return cls(role, name)


Parameters = Mapping[str, str | float | int]
_OWN = ("fault", "target", "start_s", "hold_s")


@dataclass(frozen=True)
class PlannedFault:
    """One fault of a schedule. Times are seconds since the feeder began."""

    fault: str
    target: Target
    start_s: float
    hold_s: float
    parameters: Parameters = field(default_factory=dict)  # the fault's own: `step`, where a worker is struck

    @property
    def step(self) -> str | None:
        """The step of a worker's loop at which it strikes."""
        step = self.parameters.get("step")
        return None if step is None else str(step)

    @property
    def state(self) -> str | None:
        """The state of a transaction in which it strikes."""
        state = self.parameters.get("state")
        return None if state is None else str(state)

    @property
    def prefers(self) -> str | None:
        """The state of a transaction in which it strikes if that comes soon, and else as it is."""
        state = self.parameters.get("prefers")
        return None if state is None else str(state)

    @property
    def stage(self) -> str | None:
        """The stage whose worker must be there; None: any."""
        stage = self.parameters.get("stage")
        return None if stage is None else str(stage)

    def as_table(self) -> dict[str, Any]:
        """As it stands in `run.toml`: flat."""
        times = {"start_s": self.start_s, "hold_s": self.hold_s}
        return {"fault": self.fault, "target": str(self.target), **times, **self.parameters}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "PlannedFault":
        """The inverse of `as_table`; raises `UnreadableInput`."""
        try:
            return cls(
                fault=str(table["fault"]),
                target=Target.parse(str(table["target"])),
                start_s=float(table["start_s"]),
                hold_s=float(table["hold_s"]),
                parameters={key: value for key, value in table.items() if key not in _OWN},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableInput(
                f"a fault of the schedule cannot be read: {error!r} in {dict(table)}"
            ) from error

    def __str__(self) -> str:
        where = f" at {self.step}" if self.step else f" in {self.state}" if self.state else ""
        return f"{self.start_s:5.1f} s  {self.fault}  {self.target}{where}, for at least {self.hold_s:g} s"


@dataclass(frozen=True)
class FaultTargets:
    """What can be struck: known before anything runs."""

    brokers: tuple[int, ...]
    places: tuple[TopicPartition, ...]  # the partitions of the pipeline's topics
    workers: Mapping[str, tuple[str, ...]]  # by stage
    steps: Mapping[str, tuple[str, ...]]  # by stage: those that its loop comes to
    zombie_steps: Mapping[
        str, tuple[str, ...]
    ]  # by stage: those at which a worker has begun what others must do
    groups: Mapping[str, str]  # by stage that has one
    transactional_ids: Mapping[str, tuple[str, ...]]  # by stage
    endpoints: tuple[str, ...]  # the client endpoints that workers begin in
    writes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by stage: the topics of its outputs
    can: frozenset[Need] = ALL_ABILITIES
    stage: str | None = None  # strike workers of this stage only
    step: str | None = None  # and at this step
    services: tuple[str, ...] = ()  # the servers of the pipeline's stores, by name
    stages_with_unknown_ids: tuple[
        str, ...
    ] = ()  # stages whose transactional ids are found out once they are spoken

    @property
    def stages(self) -> list[str]:
        """The stages whose workers may be struck."""
        return [self.stage] if self.stage else sorted(self.workers)

    @property
    def ids(self) -> list[str]:
        """Every transactional id."""
        return [own for stage in sorted(self.transactional_ids) for own in self.transactional_ids[stage]]

    @property
    def written(self) -> list[TopicPartition]:
        """The partitions that workers write."""
        topics = {topic for written in self.writes.values() for topic in written}
        return [place for place in self.places if place[0] in topics]

    def only(self, stages: Collection[str]) -> "FaultTargets":
        """What has to do with the workers of these stages, and the partitions that they write."""
        few = replace(
            self,
            workers={stage: names if stage in stages else () for stage, names in self.workers.items()},
            groups={stage: group for stage, group in self.groups.items() if stage in stages},
            transactional_ids={
                stage: own for stage, own in self.transactional_ids.items() if stage in stages
            },
            writes={stage: topics for stage, topics in self.writes.items() if stage in stages},
        )
        return replace(few, places=tuple(few.written))


class NoTarget(Exception):
    """Of all that a fault could strike the run has nothing; the words say what it needs."""


class NotForThisPipeline(NoTarget):
    """It strikes what few pipelines have: where nobody asked for it, its absence is not told."""


@dataclass(frozen=True)
class DrawnFault:
    """What a fault drew for one injection."""

    target: Target
    parameters: Parameters = field(default_factory=dict)


@dataclass
class InjectedFault:
    """What a fault did: filled in while it is on."""

    target: str  # all of it: "broker 2, leader of invoices/3"
    short_target: str = ""  # the short of it: "broker 2"; empty: the target
    other: str = ""  # whom it was cut from
    proof: list[str] = field(default_factory=list)
    acted: bool = False
    details: dict[str, str] = field(default_factory=dict)  # see `harness.results.verdict.FaultReport`
    unmet_goals: dict[str, str] = field(
        default_factory=dict
    )  # goals that it should have reached, and did not
    injected_ns: int | None = None  # when it struck, on the monotonic clock; None: as soon as it was begun

    def mark_injected(self) -> None:
        """Note that it strikes now: called right before the deed. What waits for its moment has not struck yet."""
        self.injected_ns = time.monotonic_ns()

    def describe(self, past_tense: str) -> str:
        """What happened to whom: "broker 2 was cut off from broker 3"."""
        words = f"{self.short_target or self.target} {past_tense}"
        return f"{words} from {self.other}" if self.other else words

    def add_proof(self, evidence: str) -> None:
        """Add a proof that it acted."""
        if evidence:
            self.proof.append(evidence)
            self.acted = True


@dataclass(frozen=True)
class FaultContext:
    """What a fault may touch."""

    cluster: Cluster
    processes: Processes
    topics: tuple[str, ...] = ()  # of the run: a heal waits for these, and not for those of strangers
    stages: Sequence[StageSpec] = ()
    services: Mapping[str, Service] = field(default_factory=dict)  # the servers of its stores, by name
    backlog: Backlog = no_backlog  # what is left in the tables that stages read


@dataclass(frozen=True)
class AtState:
    """What a fault needs beyond its own needs if it strikes in one state of a transaction."""

    slower_s: float = 0.0
    needs: frozenset[Need] = frozenset()
    least_brokers: int = 1


@dataclass(frozen=True)
class Nemesis:
    """A fault.

    `inject` says in the `InjectedFault` that it gives whether it acted: one that was injected and did nothing makes a
    run unknown. It raises `FaultFailed` only where the injection or the heal itself failed.
    """

    name: str
    summary: str
    past_tense: str  # completes "broker 2 ...": "was killed"
    hold_s: float  # shorter would only be a stall
    recovery_s: float  # from the heal until all is as it was
    draw: Callable[[Random, FaultTargets], DrawnFault]
    inject: Callable[[FaultContext, PlannedFault], AbstractContextManager[InjectedFault]]
    occupies: Callable[[PlannedFault], frozenset[Resource]]
    needs: frozenset[Need] = frozenset()  # abilities of the cluster, and the effects that it imposes on links
    breaks: frozenset[Premise] = frozenset()
    by_default: bool = True  # drawn where nobody asked for faults by name
    aimable: bool = False  # it can be aimed at a step of a worker's loop
    states: frozenset[str] = frozenset()  # of a transaction, at which it can be aimed as well
    extra_needs_in: Mapping[str, AtState] = field(default_factory=dict)  # by state
    at: str | None = None  # strikes only at this step or state (`STAGE:STEP`, `STAGE:STATE`: in that stage)
    least_brokers: int = 1  # with fewer nobody can take the role of the one that is struck
    discovers_ids: bool = False  # it finds out a transactional id that nobody named
    keeps_endpoint: bool = (
        False  # what it strikes lives on beside its replacement, which needs a endpoint more
    )

    @property
    def extra_needs(self) -> AtState:
        """What it takes more where it is aimed."""
        return self.extra_needs_in.get((self.at or "").rpartition(":")[2], AtState())

    @property
    def asked(self) -> str:
        """How `--nemesis` asks for it: `kill-worker`, or `kill-worker@after-send`."""
        return f"{self.name}@{self.at}" if self.at else self.name

    def draw_fault(self, rng: Random, targets: FaultTargets) -> DrawnFault:
        """A target; where it is aimed at a step, one that has to do with a worker there. Raises `NoTarget`."""
        if self.at is None:
            return self.draw(rng, targets)
        only, _, at = self.at.rpartition(":")
        whose = f"a stage {only}" if only else "a pipeline"
        kept = {"stage": only} if only else {}
        if at in self.states:
            named = (stage for stage, own in targets.transactional_ids.items() if own)
            found = targets.stages_with_unknown_ids if self.discovers_ids else ()
            able = {stage for stage in (*named, *found) if only in ("", stage)}
            if not able:
                raise NoTarget(f"{whose} with a transactional id")
            drawn = self.draw(rng, targets.only(able))
            own = {name: value for name, value in drawn.parameters.items() if name != "prefers"}
            return replace(drawn, parameters={**own, "state": at, **kept})
        reached = {
            stage: (at,) if at in steps and only in ("", stage) else ()
            for stage, steps in targets.steps.items()
        }
        able = {stage for stage, steps in reached.items() if steps}
        if not able:
            raise NoTarget(f"{whose} whose workers come to the step {at}")
        held = {
            stage: steps if at in (*STEPS_WITH_INPUT, *targets.zombie_steps.get(stage, ())) else ()
            for stage, steps in reached.items()
        }
        drawn = self.draw(rng, replace(targets.only(able), steps=reached, zombie_steps=held, step=None))
        return replace(drawn, parameters={**drawn.parameters, "step": at, **kept})

    @property
    def duration_s(self) -> float:
        """What it takes from the time limit."""
        return self.hold_s + self.recovery_s + self.extra_needs.slower_s
