"""The interface of a nemesis: how its faults are drawn, what they need, and how they are injected.

`Nemesis.inject` takes a `PlannedFault`, which is pure data, and returns a context manager. Entering it injects the
fault and collects the proof; leaving it heals the fault. A target is a role. It is drawn before the run and resolved to
a broker or a worker when the fault is injected.
"""

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any, TypeVar

from harness.cluster import ALL_ABILITIES, Cluster, Need
from harness.common.errors import UnreadableInput, UsageError
from harness.common.waiting import wait_for
from harness.databases.interface import Backlog, Service, no_backlog
from harness.environment.versions import DEFAULT_KAFKA
from harness.model.pipeline import CONSUMER_OFFSETS, TRANSACTION_STATE, StageSpec, TopicPartition
from harness.model.vocabulary import STEPS_WITH_INPUT, Premise, WorkerStep
from harness.protocol.rule_checks import require_api
from harness.protocol.rules import ProtocolRule
from harness.runner.processes import Processes

T = TypeVar("T")
BROKER = "broker"
"""The role of a broker that is chosen by its number."""
VERSIONS = "versions"
"""The role of a target that is versions of Kafka."""


class Resource(StrEnum):
    """Something that a fault uses. Drawn faults that use the same resource never overlap, unless the user asks for it.

    `harness.runner.schedule.why_not_together` says which of them can overlap if the user asks for it.
    """

    # All brokers and their links. If only one fault acts on them at a time, no partition lacks a leader for long.
    BROKERS = "brokers"
    WORKERS = "workers"
    SERVICES = "services"  # the database servers of the pipeline
    MESSAGES = "messages"  # Kafka's messages: one rule of the protocol proxy at a time
    # A fault changes these and then sets them back. Two faults on one of them cannot overlap: the heal of one, or its
    # proof, would be that of the other.
    CLOCKS = "clocks"
    DISKS = "disks of brokers"
    FEATURES = "features of the cluster"
    PLACEMENT = "replicas of partitions"


@dataclass(frozen=True)
class Target:
    """The role that a fault concerns: `leader` of `invoices/0`, `txn-coordinator` of `shop-1`."""

    role: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.role}:{self.name}" if self.name else self.role

    @property
    def brokers(self) -> frozenset[str]:
        """The numbers of the brokers that the target names. Empty: it names none, but a partition or a worker."""
        name = self.name.rpartition("-")[2] if self.role == "client" else self.name
        numbers = re.split("[-,]", name)
        return frozenset(numbers) if all(map(str.isdecimal, numbers)) else frozenset()

    @property
    def kafka_versions(self) -> tuple[str, ...]:
        """The versions of Kafka that the brokers run in turn. Empty: the fault does not change their version."""
        return tuple(self.name.split(",")) if self.role == VERSIONS else ()

    @classmethod
    def parse(cls, text: str) -> "Target":
        """The inverse of `str`."""
        role, _, name = text.partition(":")
        return cls(role, name)


Parameters = Mapping[str, str | float | int]
_OWN = ("fault", "target", "start_s", "hold_s")


@dataclass(frozen=True)
class PlannedFault:
    """One entry of a schedule. `start_s` counts from the start of the feeder."""

    fault: str
    target: Target
    start_s: float
    hold_s: float
    parameters: Parameters = field(default_factory=dict)  # of this nemesis, for example `step`

    @property
    def step(self) -> str | None:
        """The step of a worker's loop at which the fault is injected; None: the fault does not wait for a step."""
        step = self.parameters.get("step")
        return None if step is None else str(step)

    @property
    def state(self) -> str | None:
        """The transaction state in which the fault is injected; None: it does not wait for one."""
        state = self.parameters.get("state")
        return None if state is None else str(state)

    @property
    def preferred_state(self) -> str | None:
        """The transaction state for which the fault waits a short time. After that time it is injected in any state."""
        state = self.parameters.get("prefers")
        return None if state is None else str(state)

    @property
    def stage(self) -> str | None:
        """The stage whose worker must be at `step` or in `state`; None: any stage."""
        stage = self.parameters.get("stage")
        return None if stage is None else str(stage)

    @property
    def since_start(self) -> bool:
        """Whether it is injected before the first worker starts. Then `hold_s` counts from the first input."""
        return self.parameters.get("since") == "start"

    @property
    def end_s(self) -> float:
        """The planned time of the heal."""
        return self.start_s + self.hold_s

    def overlaps(self, other: "PlannedFault") -> bool:
        """Return whether both faults are active at the same time, according to the plan."""
        return self.start_s < other.end_s and other.start_s < self.end_s

    def as_table(self) -> dict[str, Any]:
        """Return the entry of `run.toml`: one flat table with the parameters and all other fields."""
        times = {"start_s": self.start_s, "hold_s": self.hold_s}
        return {"fault": self.fault, "target": str(self.target), **times, **self.parameters}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "PlannedFault":
        """The inverse of `as_table`. Raises `UnreadableInput`."""
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
        start = "  start" if self.since_start else f"{self.start_s:5.1f} s"
        return f"{start}  {self.fault}  {self.target}{where}, for at least {self.hold_s:g} s"


@dataclass(frozen=True)
class FaultTargets:
    """All possible targets of faults, as far as they are known before the run starts."""

    brokers: tuple[int, ...]
    topic_partitions: tuple[TopicPartition, ...]  # the partitions of the pipeline's topics
    workers: Mapping[str, tuple[str, ...]]  # by stage
    steps: Mapping[str, tuple[str, ...]]  # by stage: the steps of its worker's loop
    # By stage: the steps at which a pause makes the worker a zombie.
    zombie_steps: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, str]  # by stage; stages without a group are left out
    transactional_ids: Mapping[str, tuple[str, ...]]  # by stage
    endpoints: tuple[str, ...]  # the client endpoints of the first incarnations of the workers
    writes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by stage: the topics that it writes
    reads: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # by stage: the topics and tables that it reads
    tables: tuple[str, ...] = ()  # the tables of databases of the pipeline
    # The topics whose number of partitions must not change, each with the reason.
    fixed_topics: Mapping[str, str] = field(default_factory=dict)
    abilities: frozenset[Need] = ALL_ABILITIES  # of the cluster
    stage: str | None = None  # draw only workers of this stage
    step: str | None = None  # draw only this step
    services: tuple[str, ...] = ()  # the names of the database servers
    replicas: Mapping[str, int] = field(default_factory=dict)  # by topic of the pipeline
    kafka: str = DEFAULT_KAFKA  # the version of the brokers at the start
    transaction_version: int = 2  # the finalized level at the start
    # Stages whose transactional ids are not declared. They are observed in requests during the run.
    stages_with_unknown_ids: tuple[str, ...] = ()
    # By stage: how long a fault on one of its instances may wait until the stage works (`StageSpec.reserved_s`).
    reserved_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def stages(self) -> list[str]:
        """The stages whose workers a fault may be injected into."""
        return [self.stage] if self.stage else sorted(self.workers)

    @property
    def ids(self) -> list[str]:
        """Every transactional id."""
        return [own for stage in sorted(self.transactional_ids) for own in self.transactional_ids[stage]]

    @property
    def own_topics(self) -> list[str]:
        """The topics of the pipeline."""
        return sorted({topic for topic, _ in self.topic_partitions})

    @property
    def topics(self) -> list[str]:
        """The topics of the pipeline, and the internal topics that it uses."""
        internal = {
            CONSUMER_OFFSETS: self.groups,
            TRANSACTION_STATE: self.ids or self.stages_with_unknown_ids,
        }
        return [*self.own_topics, *(topic for topic, users in internal.items() if users)]

    @property
    def written(self) -> list[TopicPartition]:
        """The partitions that workers write."""
        topics = {topic for written in self.writes.values() for topic in written}
        return [topic_partition for topic_partition in self.topic_partitions if topic_partition[0] in topics]

    def reserved_for(self, fault: PlannedFault) -> float:
        """Return the time that the schedule reserves for a fault that waits until the stage of its target works."""
        stage = fault.target.name.partition("/")[0]
        return self.reserved_s.get(stage, 0.0) if fault.target.role == "worker" else 0.0

    def of_stages(self, stages: Collection[str]) -> "FaultTargets":
        """Return only the targets that belong to these stages, and the partitions that these stages write."""
        restricted = replace(
            self,
            workers={stage: names if stage in stages else () for stage, names in self.workers.items()},
            groups={stage: group for stage, group in self.groups.items() if stage in stages},
            transactional_ids={
                stage: own for stage, own in self.transactional_ids.items() if stage in stages
            },
            writes={stage: topics for stage, topics in self.writes.items() if stage in stages},
        )
        return replace(restricted, topic_partitions=tuple(restricted.written))


class NoTarget(Exception):
    """The run has no target for a fault. The message says what the fault needs."""


class NotForThisPipeline(NoTarget):
    """The fault needs a target that few pipelines have.

    The schedule leaves it out without a message, unless the user named the nemesis.
    """


class TargetMissing(Exception):
    """The target does not exist at the time of the injection. The fault does not act, and the run goes on."""


@dataclass(frozen=True)
class DrawnFault:
    """The target and the parameters that a nemesis has drawn for one fault."""

    target: Target
    parameters: Parameters = field(default_factory=dict)


@dataclass
class InjectedFault:
    """The effects of a fault. The nemesis fills it in while the fault is active."""

    target: str  # "broker 2, leader of invoices/3"
    short_target: str = ""  # "broker 2"; empty: the same as `target`
    other: str = ""  # of a network fault: the other end of the link that was cut
    proof: list[str] = field(default_factory=list)
    acted: bool = False
    details: dict[str, str] = field(default_factory=dict)  # see `harness.results.verdict.FaultReport`
    # The goals that the fault did not reach, each with the reason.
    unmet_goals: dict[str, str] = field(default_factory=dict)
    injected_ns: int | None = None  # on the monotonic clock; None: the time of the call of `inject`
    healed_ns: int | None = None  # on the monotonic clock; None: the time of the end of `inject`

    def mark_injected(self) -> None:
        """Set `injected_ns` to now.

        Call it directly before the fault takes effect, after any wait for the right moment.
        """
        self.injected_ns = time.monotonic_ns()

    def mark_healed(self) -> None:
        """Set `healed_ns` to now.

        Call it directly after the heal, if the fault then waits for evidence of what the target does.
        """
        self.healed_ns = time.monotonic_ns()

    def describe(self, past_tense: str) -> str:
        """Return a sentence such as "broker 2 was cut off from broker 3"."""
        sentence = f"{self.short_target or self.target} {past_tense}"
        return f"{sentence} from {self.other}" if self.other else sentence

    def add_proof(self, evidence: str) -> None:
        """Add evidence that the fault acted. An empty string is ignored."""
        if evidence:
            self.proof.append(evidence)
            self.acted = True


@dataclass(frozen=True)
class FaultContext:
    """The parts of a run that a fault may act on."""

    cluster: Cluster
    processes: Processes
    topics: tuple[str, ...] = ()  # the topics of this run: a heal waits for these and for no other topics
    stages: Sequence[StageSpec] = ()
    services: Mapping[str, Service] = field(default_factory=dict)  # the database servers, by name
    backlog: Backlog = no_backlog  # counts the unprocessed rows of tables that stages read
    time_scale: float = (
        1.0  # multiplies each time-out and poll interval of a fault; tests without Kafka shorten them
    )
    zero_ns: int = 0  # the monotonic clock when the run began
    stopping: Callable[[], bool] = lambda: False  # whether the faults must come to their end

    def run_time_s(self) -> float:
        """Return the seconds since the run began."""
        return (time.monotonic_ns() - self.zero_ns) / 1e9

    def scaled(self, seconds: float) -> float:
        """Return a time-out or a poll interval, multiplied by `time_scale`."""
        return seconds * self.time_scale

    def wait_for(
        self,
        probe: Callable[[], T | None],
        awaited: str,
        timeout_s: float,
        *,
        every_s: float = 0.05,
        last_seen: Callable[[], object] | None = None,
    ) -> T:
        """Wait as `harness.common.waiting.wait_for` does, with scaled times."""
        return wait_for(
            probe, awaited, self.scaled(timeout_s), every_s=self.scaled(every_s), last_seen=last_seen
        )


@dataclass(frozen=True)
class ExtraNeeds:
    """The additional needs of a fault that is injected in a certain state of a transaction."""

    extra_s: float = 0.0  # additional time
    needs: frozenset[Need] = frozenset()
    least_brokers: int = 1


@dataclass(frozen=True)
class RoleChoice:
    """A role that the user can choose after @: of brokers `leader`, or `leader:orders/0`; of an instance `down`."""

    # Draws the target. The text is the name that the user chose; empty: the name is drawn too. Raises `NoTarget`, and
    # `UsageError` for a name that the run does not have.
    draw: Callable[[Random, FaultTargets, str], Target]
    named_by: str = ""  # what the user can add after a colon: `TOPIC/PARTITION`


@dataclass(frozen=True)
class Nemesis:
    """A kind of fault.

    `inject` returns a context manager that yields an `InjectedFault`. Its `acted` says whether the fault had an effect.
    A fault that did not act makes the verdict unknown. `inject` raises `FaultFailed` only if the injection or the heal
    failed.
    """

    name: str
    summary: str
    past_tense: str  # completes a sentence: "was killed", for "broker 2 was killed"
    # The least time from the call of `inject` to the heal, in seconds. A shorter fault would only delay the clients.
    hold_s: float
    recovery_s: float  # from the heal until the cluster has recovered
    draw: Callable[[Random, FaultTargets], DrawnFault]
    inject: Callable[[FaultContext, PlannedFault], AbstractContextManager[InjectedFault]]
    occupies: Callable[[PlannedFault], frozenset[Resource]]
    needs: frozenset[Need] = frozenset()  # abilities of the cluster and network effects
    broken_premises: frozenset[Premise] = frozenset()
    # The pipeline, or the worker at which it is aimed, can commit nothing while it is active. Then its duration adds to
    # the bound of `stalled`. After any other fault the pipeline must go on before the heal.
    halts: bool = False
    overtime_s: float = 0.0  # how much longer than other faults it may take after the time limit
    proves: str = ""  # completes "its evidence proves that ..."
    sources: tuple[str, ...] = ()  # where the behaviour that it tests is known from: `KAFKA-17754`, `KIP-890`
    by_default: bool = True  # drawn if the user named no nemesis
    aimable: bool = False  # the user can choose the step of a worker's loop (`kill-worker@after-send`)
    states: frozenset[str] = frozenset()  # the transaction states that the user can choose
    extra_needs_by_state: Mapping[str, ExtraNeeds] = field(default_factory=dict)  # by transaction state
    roles: Mapping[str, RoleChoice] = field(default_factory=dict)  # the roles that the user can choose
    # By parameter, the values from which the seed draws one. A schedule that the user writes may have another of them,
    # and another number instead of a float.
    parameters: Mapping[str, range | Sequence[str] | Sequence[float]] = field(default_factory=dict)
    # The chosen step, state or role; with a stage: `STAGE:STEP` or `STAGE:STATE`.
    at: str | None = None
    # By parameter, the smallest and the largest number that a schedule of the user may have.
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # The role that a name after @ has if the user writes no role: `@invoices` means `@topic:invoices`.
    role_of_names: str = ""
    least_brokers: int = 1  # with fewer, no broker can take over the role
    # Of each topic of the pipeline. With fewer replicas, the fault would destroy acknowledged records.
    least_replicas: int = 1
    # What it learns from the protocol proxy about its target, which is an instance of a custom pipeline:
    discovers_ids: bool = False  # a transactional id that the pipeline does not declare
    discovers_members: bool = False  # its member id in its group
    # The target remains alive together with its replacement, so the run needs one more client endpoint.
    keeps_endpoint: bool = False

    # Only of a fault that is a rule of the protocol proxy:
    rule: Callable[[PlannedFault], ProtocolRule] | None = None
    api_aim: tuple[str, ...] = ()  # what the user can choose after @: `api`, or `api` and `error`
    links: str = ""  # the kind of links that must pass through the protocol proxy: client or peer

    @property
    def extra_needs(self) -> ExtraNeeds:
        """The additional needs of the fault because of `at`."""
        return self.extra_needs_by_state.get((self.at or "").rpartition(":")[2], ExtraNeeds())

    @property
    def option(self) -> str:
        """The value of `--nemesis`: `kill-worker`, or `kill-worker@after-send`."""
        return f"{self.name}@{self.at}" if self.at else self.name

    def require_api_aim(self, at: str) -> None:
        """Raise `UsageError` if a text after @ names no API of Kafka, or has more parts than the fault takes."""
        if at.count(":") >= len(self.api_aim):
            raise UsageError(
                f"{self.name} can be aimed as {self.name}@{':'.join(self.api_aim).upper()}, not at {at}"
            )
        require_api(at.partition(":")[0])

    def halts_at(self, details: Mapping[str, str]) -> bool:
        """Return whether nothing can be committed during a fault with these details.

        A fault that is aimed at a state of a transaction keeps the transaction in this state. A fault on several
        brokers leaves partitions without enough replicas in sync.
        """
        return self.halts or not {"state", "brokers"}.isdisjoint(details)

    def role_at(self, at: str) -> tuple[str, str] | None:
        """Split a text after @ into a role and its name: `leader:orders/0`; for a broker's number: `broker` and `2`.

        None: the text names no role, but a step or a state.
        """
        role, _, name = at.partition(":")
        if self.role_of_names:
            return (role, name) if role in self.roles else (self.role_of_names, at)
        if at.isdecimal():
            role, name = BROKER, at
        waits = at.rpartition(":")[2] in (*WorkerStep, *self.states)
        return None if waits or role not in self.roles else (role, name)

    def draw_fault(self, rng: Random, targets: FaultTargets) -> DrawnFault:
        """Draw a target. With `at`, draw it from the stages that have this step or state, or for this role.

        Raises `NoTarget`, and `UsageError` for a name of a role that the run does not have.
        """
        if self.at is None:
            drawn = self.draw(rng, targets)
            return replace(drawn, parameters={**drawn.parameters, **self._draw_parameters(rng)})
        if (role := self.role_at(self.at)) is not None:
            target = self.roles[role[0]].draw(rng, targets, role[1])
            return DrawnFault(target, {"role": self.at, **self._draw_parameters(rng)})
        if self.api_aim:
            drawn = self.draw(rng, targets)
            chosen = dict(zip(self.api_aim, self.at.split(":"), strict=False))
            return replace(
                drawn, target=Target("api", chosen["api"]), parameters={**drawn.parameters, **chosen}
            )
        stage, _, at = self.at.rpartition(":")
        owner = f"a stage {stage}" if stage else "a pipeline"
        stage_parameter = {"stage": stage} if stage else {}
        if at in self.states:
            declared = (name for name, ids in targets.transactional_ids.items() if ids)
            observed = targets.stages_with_unknown_ids if self.discovers_ids else ()
            stages = {name for name in (*declared, *observed) if stage in ("", name)}
            if not stages:
                raise NoTarget(f"{owner} with a transactional id")
            drawn = self.draw(rng, targets.of_stages(stages))
            parameters = {name: value for name, value in drawn.parameters.items() if name != "prefers"}
            return replace(drawn, parameters={**parameters, "state": at, **stage_parameter})
        reached = {
            name: (at,) if at in steps and stage in ("", name) else ()
            for name, steps in targets.steps.items()
        }
        stages = {name for name, steps in reached.items() if steps}
        if not stages:
            raise NoTarget(f"{owner} whose workers come to the step {at}")
        zombie_steps = {
            name: steps if at in (*STEPS_WITH_INPUT, *targets.zombie_steps.get(name, ())) else ()
            for name, steps in reached.items()
        }
        drawn = self.draw(
            rng, replace(targets.of_stages(stages), steps=reached, zombie_steps=zombie_steps, step=None)
        )
        return replace(drawn, parameters={**drawn.parameters, "step": at, **stage_parameter})

    def _draw_parameters(self, rng: Random) -> Parameters:
        return {name: values[rng.randrange(len(values))] for name, values in self.parameters.items()}

    @property
    def duration_s(self) -> float:
        """The time that the fault takes of the time limit: until it is healed and the cluster has recovered."""
        return self.hold_s + self.recovery_s + self.extra_needs.extra_s


Occupies = Callable[[PlannedFault], frozenset[Resource]]


def uses_brokers(planned: PlannedFault) -> frozenset[Resource]:
    """A fault that acts on brokers or links occupies BROKERS.

    If it waits for a worker's step or for a transaction state, it occupies WORKERS too.
    """
    holds_worker = planned.step is not None or planned.state is not None
    return frozenset({Resource.BROKERS, *({Resource.WORKERS} if holds_worker else ())})


def uses_brokers_and_workers(_: PlannedFault) -> frozenset[Resource]:
    """A fault that acts on a broker or a link, and holds a worker at the same time, occupies BROKERS and WORKERS."""
    return frozenset({Resource.BROKERS, Resource.WORKERS})


def uses_workers(_: PlannedFault) -> frozenset[Resource]:
    """A fault that acts on workers occupies WORKERS."""
    return frozenset({Resource.WORKERS})


def uses_also(resource: Resource, occupies: Occupies) -> Occupies:
    """Return a function that adds a resource to those that `occupies` returns."""
    return lambda planned: occupies(planned) | {resource}


def uses_services(_: PlannedFault) -> frozenset[Resource]:
    """A fault that acts on a database server occupies SERVICES."""
    return frozenset({Resource.SERVICES})
