"""Roles as targets: a role is drawn before a run, and resolved to a broker or a worker when the fault is injected."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import TypeVar

from harness.cluster import Cluster, PartitionView
from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.pipeline import StageSpec, TopicPartition
from harness.network import LinkTraffic, client_links_by_broker
from harness.record.naming import split_partition
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    NoTarget,
    PlannedFault,
    Target,
)
from harness.runner.processes import Processes
from harness.runner.run_process import RunProcess

T = TypeVar("T")
IN_USE_TIMEOUT_S = 20.0
DRAWN_TIMEOUT_S = 3.0
"""How long to wait for requests of a worker to the broker that was drawn. A worker fetches at least twice a second."""
LEAST_GROWTHS = 2
"""How often the number of bytes sent to a broker must grow before the worker counts as using the broker. Once is not
enough: after a broker starts again, a client connects to it, and may then send nothing more.
"""


def choose(rng: Random, candidates: Sequence[T], requirement: str) -> T:
    """Draw one of the candidates. Raises `NoTarget` if there is none; `requirement` is its message."""
    if not candidates:
        raise NoTarget(requirement)
    return rng.choice(candidates)


def any_leader(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw the leader of one of the pipeline's partitions."""
    topic, partition = choose(rng, targets.topic_partitions, "a topic")
    return DrawnFault(Target("leader", f"{topic}/{partition}"))


def any_topic(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw one of the pipeline's topics, or of the internal topics that it uses."""
    return DrawnFault(Target("topic", choose(rng, targets.topics, "a topic")))


def topic_in_run(context: FaultContext, name: str) -> str:
    """Return the name that a topic of the pipeline has in the run. On a shared cluster it begins with the run's tag."""
    if name in context.topics:
        return name
    return min((topic for topic in context.topics if topic.endswith(f"-{name}")), key=len, default=name)


def any_txn_coordinator(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw the coordinator of one transactional id."""
    transactional_id = choose(rng, targets.ids, "a pipeline with a transactional id")
    return DrawnFault(Target("txn-coordinator", transactional_id))


def any_group_coordinator(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw the coordinator of one stage's consumer group."""
    group = choose(rng, list(targets.groups.values()), "a pipeline with a consumer group")
    return DrawnFault(Target("group-coordinator", group))


def broker_in_role(cluster: Cluster, target: Target) -> Callable[[], int]:
    """Return a function that returns the broker that has the role now, or -1 if there is none."""
    name = target.name
    if target.role == "leader":
        return lambda: view_of(cluster, name).leader
    if target.role == "txn-coordinator":
        return lambda: cluster.txn_coordinator(name)
    if target.role == "group-coordinator":
        return lambda: cluster.group_coordinator(name)
    if target.role == "controller":
        return cluster.controller
    if target.role == "follower":
        return partial(_follower, cluster, name)
    raise FaultFailed(f"no broker has the role {target}")


def partition_of_role(cluster: Cluster, target: Target) -> TopicPartition:
    """Return the partition whose leader has the role. Raises `FaultFailed` if the role has no partition."""
    if target.role == "txn-coordinator":
        return cluster.transactions_partition(target.name)
    if target.role == "group-coordinator":
        return cluster.offsets_partition(target.name)
    if target.role == "leader":
        return split_partition(target.name)
    raise FaultFailed(f"no partition decides which broker is {target}")


def view_of(cluster: Cluster, topic_partition: str) -> PartitionView:
    """Return a partition such as `orders/0` as the controller sees it."""
    topic, _, partition = topic_partition.rpartition("/")
    return cluster.describe(topic)[int(partition)]


def _follower(cluster: Cluster, topic_partition: str) -> int:
    """Return the first replica in sync that does not lead the partition, or -1 if there is none."""
    view = view_of(cluster, topic_partition)
    return min(set(view.isr) - {view.leader}, default=-1) if view.leader > 0 else -1


def worker_in_role(processes: Processes, target: Target) -> RunProcess:
    """Return the worker with this name.

    If it has ended or has no inputs, return another worker of its stage that has inputs. Raises `FaultFailed` if no
    worker of the stage is alive.
    """
    stage, _, worker = target.name.partition("/")
    return _busiest(
        processes.workers(stage), lambda member: member.worker == worker, f"no worker of {stage} is alive"
    )


def stages_of(context: FaultContext, planned: PlannedFault) -> list[StageSpec]:
    """Return the stages whose workers have the step or the transaction state at which the fault is aimed."""
    return [
        stage
        for stage in context.stages
        if planned.stage in (None, stage.name)
        and planned.step in (None, *stage.steps)
        and (planned.state is None or stage.transactional_ids)
    ]


def worker_using_role(context: FaultContext, planned: PlannedFault) -> RunProcess:
    """Return the first of `workers_using_role`. Raises `FaultFailed`."""
    return next(workers_using_role(context, planned))


def workers_using_role(context: FaultContext, planned: PlannedFault) -> Iterator[RunProcess]:
    """Yield the living workers that use the role of a broker, the most suitable one first.

    The target names a transactional id, a group or a partition. The first worker has this transactional id, is in this
    group, or writes this partition. Then follow the other workers with inputs: first those of the same stages, then
    those of other stages with transactions. Raises `FaultFailed` if no worker is alive.
    """
    target = planned.target
    topic = target.name.rpartition("/")[0]
    candidates = stages_of(context, planned)
    stages = [
        stage
        for stage in candidates
        if topic in stage.writes or target.name in (stage.group, *stage.transactional_ids.values())
    ]
    workers = [member for stage in stages for member in context.processes.workers(stage.name)]
    owners = {
        worker
        for stage in stages
        for worker, transactional_id in stage.transactional_ids.items()
        if transactional_id == target.name
    }
    first = _busiest(workers, lambda member: member.worker in owners, f"no worker of {target} is alive")
    yield first
    others = [stage for stage in candidates if stage not in stages and stage.transactional_ids]
    workers += [member for stage in others for member in context.processes.workers(stage.name)]
    yield from (
        member for member in workers if member is not first and member.alive and member.status.counts.inputs
    )


def worker_at_endpoint(processes: Processes, endpoint: str) -> RunProcess:
    """Return the worker that uses a client endpoint. If it has no inputs, return another worker that has inputs.

    To cut a link of a worker without inputs would have no effect. Raises `FaultFailed` if no worker is alive.
    """
    no_worker = "no worker is alive whose link could be cut"
    return _busiest(processes.workers(), lambda member: member.endpoint == endpoint, no_worker)


def broker_in_use(context: FaultContext, endpoint: str, drawn: int) -> int:
    """Return the broker that was drawn if the worker sends requests to it, else the broker to which it sends most.

    A broker that was down leads no partition, so workers may send nothing to it for minutes. An external cluster may
    have other broker numbers. If the worker is still starting, wait for it, but no longer than a fault may be late. If
    the bytes on links cannot be counted, count connections instead. Raises `FaultFailed` if the endpoint has no link.
    """
    cluster = context.cluster
    links = client_links_by_broker(endpoint, cluster.network.links)
    if not links:
        raise FaultFailed(f"there is no link of the client endpoint {endpoint}")
    meter = cluster.network.meter(links.values())
    sent: Mapping[int, int] = {}
    sent_to_drawn: set[int] = set()
    least_growths = LEAST_GROWTHS

    def measure() -> None:
        nonlocal sent, least_growths
        traffic = meter.traffic()
        if traffic is None:
            least_growths = 1  # a number of connections need not grow
            traffic = {
                link: LinkTraffic(count, 0)
                for link, count in cluster.network.connections(links.values()).items()
            }
        sent = {broker: traffic[link].requests for broker, link in links.items()}

    def sends_to_drawn() -> bool:
        measure()
        sent_to_drawn.add(sent.get(drawn, 0))
        return len(sent_to_drawn - {0}) >= least_growths

    def sends_to_any() -> bool:
        measure()
        return any(sent.values())

    with suppress(WaitTimeout):  # the proof of the cut will show that it had no effect
        if drawn in links:
            with suppress(WaitTimeout):
                awaited = f"{endpoint} to send to broker {drawn}"
                context.wait_for(sends_to_drawn, awaited, DRAWN_TIMEOUT_S, every_s=0.2)
                return drawn
        context.wait_for(sends_to_any, f"{endpoint} to send to a broker", IN_USE_TIMEOUT_S, every_s=0.2)
    return max(links, key=lambda broker: sent[broker])


def _busiest(
    living: list[RunProcess], is_preferred: Callable[[RunProcess], bool], no_worker: str
) -> RunProcess:
    """Return a worker with inputs if there is one. Of several such workers, return the preferred one."""
    if not living:
        raise FaultFailed(no_worker)
    return min(living, key=lambda member: (not member.status.counts.inputs, not is_preferred(member)))
