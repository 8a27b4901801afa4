"""Targets by role, drawn before a run and found out when a fault strikes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TypeVar

from harness.cluster import Cluster
from harness.common.errors import FaultFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.model.pipeline import StageSpec
from harness.network import LinkTraffic
from harness.network.links import client_links_by_broker
from harness.runner.member import RunProcess
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    NoTarget,
    NotForThisPipeline,
    PlannedFault,
    Target,
)
from harness.runner.processes import Processes

T = TypeVar("T")
IN_TOUCH_TIMEOUT_S = 20.0
NAMED_TIMEOUT_S = 3.0
"""How long a worker is watched for requests to the broker that was drawn: it fetches at least twice a second."""
LEAST_GROWTHS = 2
"""The worker is in touch with a broker after the bytes that it sent have grown so often. A client greets a broker that
comes back, and may send it nothing after that.
"""


def choose(rng: Random, there: Sequence[T], needed: str) -> T:
    """Any of them. Raises `NoTarget` where there is none."""
    if not there:
        raise NoTarget(needed)
    return rng.choice(there)


def any_leader(rng: Random, targets: FaultTargets) -> DrawnFault:
    """The leader of one of the pipeline's partitions."""
    topic, partition = choose(rng, targets.places, "a topic")
    return DrawnFault(Target("leader", f"{topic}/{partition}"))


def any_txn_coordinator(rng: Random, targets: FaultTargets) -> DrawnFault:
    """The coordinator of one worker's transactional id."""
    transactional_id = choose(rng, targets.ids, "a pipeline with a transactional id")
    return DrawnFault(Target("txn-coordinator", transactional_id))


def any_group_coordinator(rng: Random, targets: FaultTargets) -> DrawnFault:
    """The coordinator of one stage's consumer group."""
    group = choose(rng, list(targets.groups.values()), "a pipeline with a consumer group")
    return DrawnFault(Target("group-coordinator", group))


def any_worker(
    rng: Random,
    targets: FaultTargets,
    steps: Mapping[str, Sequence[str]],
    needed: str = "a pipeline whose workers say at which step they are",
) -> DrawnFault:
    """A worker, and the step at which it is struck: one of these, by stage. Raises `NoTarget`."""
    possible = {stage: steps[stage] for stage in targets.stages if targets.workers[stage]}
    stages = [stage for stage, reached in possible.items() if reached]
    if not any(targets.steps.values()):
        raise NotForThisPipeline(needed)
    stage = choose(rng, stages, needed)
    worker = rng.choice(targets.workers[stage])
    step = rng.choice(possible[stage])
    return DrawnFault(Target("worker", f"{stage}/{worker}"), {"step": targets.step or step})


def broker_in_role(cluster: Cluster, target: Target) -> Callable[[], int]:
    """Who fills a role now: a question that may be asked again; -1 means nobody does."""
    name = target.name
    if target.role == "leader":
        topic, _, partition = name.rpartition("/")
        return lambda: cluster.describe(topic)[int(partition)].leader
    if target.role == "txn-coordinator":
        return lambda: cluster.txn_coordinator(name)
    if target.role == "group-coordinator":
        return lambda: cluster.group_coordinator(name)
    if target.role == "controller":
        return cluster.controller
    raise FaultFailed(f"no broker has the role {target}")


def worker_in_role(processes: Processes, target: Target) -> RunProcess:
    """The living worker of that name, or one of its stage that has work if it has none."""
    stage, _, worker = target.name.partition("/")
    return _busiest(
        processes.workers(stage), lambda member: member.worker == worker, f"no worker of {stage} is alive"
    )


def stages_of(context: FaultContext, planned: PlannedFault) -> list[StageSpec]:
    """The stages whose workers can be where the fault is aimed: at its step, or with a transaction in its state."""
    return [
        stage
        for stage in context.stages
        if planned.stage in (None, stage.name)
        and planned.step in (None, *stage.steps)
        and (planned.state is None or stage.transactional_ids)
    ]


def worker_behind(context: FaultContext, planned: PlannedFault) -> RunProcess:
    """The living worker that has to do with a broker's role: it has the id that the broker coordinates, is of the
    group, or of the stage that writes the partition, and comes to the step. Raises `FaultFailed`.
    """
    return next(workers_behind(context, planned))


def workers_behind(context: FaultContext, planned: PlannedFault) -> Iterator[RunProcess]:
    """That worker; then those that would do in its place, who have work: of its stages, and of any with transactions.

    Raises `FaultFailed` where there is none.
    """
    target = planned.target
    topic = target.name.rpartition("/")[0]
    able = stages_of(context, planned)
    stages = [
        stage
        for stage in able
        if topic in stage.writes or target.name in (stage.group, *stage.transactional_ids.values())
    ]
    workers = [member for stage in stages for member in context.processes.workers(stage.name)]
    named = {
        worker
        for stage in stages
        for worker, transactional_id in stage.transactional_ids.items()
        if transactional_id == target.name
    }
    first = _busiest(workers, lambda member: member.worker in named, f"no worker of {target} is alive")
    yield first
    others = [stage for stage in able if stage not in stages and stage.transactional_ids]
    workers += [member for stage in others for member in context.processes.workers(stage.name)]
    yield from (
        member for member in workers if member is not first and member.alive and member.status.counts.inputs
    )


def worker_at(processes: Processes, endpoint: str) -> RunProcess:
    """The living worker in a client endpoint; if it has nothing to do, one that has: else nothing is hit."""
    none = "no worker is alive whose link could be cut"
    return _busiest(processes.workers(), lambda member: member.endpoint == endpoint, none)


def broker_in_touch(cluster: Cluster, endpoint: str, named: int) -> int:
    """Return the broker of that number if the worker keeps sending it requests; else the one to which it sends most.

    A broker that was down has lost its partitions to others, and for minutes nobody need ask it for anything. A cluster
    that is not ours may number its brokers otherwise. A worker that starts is waited for, no longer than a fault may
    be late. Where bytes cannot be counted, connections are counted instead.
    """
    links = client_links_by_broker(endpoint, cluster.network.links)
    if not links:
        raise FaultFailed(f"there is no link of the client endpoint {endpoint}")
    meter = cluster.network.meter(links.values())
    used: Mapping[int, int] = {}
    counts: set[int] = set()
    needed = LEAST_GROWTHS

    def look() -> None:
        nonlocal used, needed
        carried = meter.traffic()
        if carried is None:
            needed = 1  # a number of connections need not grow
            carried = {
                link: LinkTraffic(count, 0)
                for link, count in cluster.network.connections(links.values()).items()
            }
        used = {broker: carried[link].requests for broker, link in links.items()}

    def to_named() -> bool:
        look()
        counts.add(used.get(named, 0))
        return len(counts - {0}) >= needed

    def to_any() -> bool:
        look()
        return any(used.values())

    with suppress(WaitTimeout):  # then the cut shows that it hit nothing
        if named in links:
            with suppress(WaitTimeout):
                wait_for(to_named, f"{endpoint} to send to broker {named}", NAMED_TIMEOUT_S, every_s=0.2)
                return named
        wait_for(to_any, f"{endpoint} to send to a broker", IN_TOUCH_TIMEOUT_S, every_s=0.2)
    return max(links, key=lambda broker: used[broker])


def _busiest(living: list[RunProcess], named: Callable[[RunProcess], bool], none: str) -> RunProcess:
    """The one that is named, if it has work to do; else one that has; else the one that is named, or any."""
    if not living:
        raise FaultFailed(none)
    return min(living, key=lambda member: (not member.status.counts.inputs, not named(member)))
