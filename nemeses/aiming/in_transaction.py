"""Hold a worker inside a transaction, and hold its markers back, for faults that are aimed at a state of a transaction.

The coordinator of a transaction writes two records to its log. After the record Prepare, the outcome is decided and
cannot change. The record Complete follows when every partition has its marker. Usually there are only milliseconds
between the two. There is more time if the links from the coordinator to the leaders of the partitions are cut.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.cluster import Broker, TransactionView
from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.pipeline import StageSpec, TopicPartition
from harness.model.vocabulary import WorkerStep
from harness.network import Cut, peer_link
from harness.processes.messages import Command
from harness.record.naming import split_partition
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from harness.runner.run_process import RunProcess
from nemeses.aiming.targets import workers_using_role

STEP_TIMEOUT_S = 60.0
"""It is long because a worker aborts only one transaction in fifty, so a fault may wait long for an abort."""
GOAL = "transaction-state"


@dataclass(frozen=True)
class HeldWorker:
    """A worker that waits at a step before the end of its transaction."""

    member: RunProcess
    stage: StageSpec
    transactional_id: str
    coordinator: int  # the broker that coordinates the transactional id
    view: TransactionView  # the transaction, as the coordinator describes it

    @property
    def details(self) -> dict[str, str]:
        """The worker and its transactional id, for the report of the fault."""
        return {"worker": self.member.journal, "transactional_id": self.transactional_id}


def stage_of(context: FaultContext, member: RunProcess) -> StageSpec:
    """Return the stage of a worker."""
    return next(stage for stage in context.stages if stage.name == member.stage)


def hold_in_transaction(
    context: FaultContext,
    planned: PlannedFault,
    intended_end: str,
    steps: tuple[WorkerStep, ...],
    effect: InjectedFault,
    unfit: Callable[[HeldWorker], str | None] = lambda held_worker: None,
) -> HeldWorker | None:
    """Hold a worker in an open transaction, at the last of `steps` that its loop has.

    Args:
        intended_end: How the worker is to end the transaction: `commit` or `abort`.
        unfit: Returns the reason why a transaction cannot be used, or None. After a reason, the worker continues, and
            the next worker is held.

    Returns:
        The worker. None if no worker reaches the step with a transaction that can be used. Then the effect has the
        reason.
    """
    why = None
    for member in workers_using_role(context, planned):
        held_worker = _hold(context, member, intended_end, steps, effect)
        if held_worker is None:
            return None
        why = unfit(held_worker)
        if why is None:
            return held_worker
        member.send(Command(go=True))
    effect.unmet_goals[GOAL] = why or f"no worker of {planned.target} is alive"
    return None


def _hold(
    context: FaultContext,
    member: RunProcess,
    intended_end: str,
    steps: tuple[WorkerStep, ...],
    effect: InjectedFault,
) -> HeldWorker | None:
    stage = stage_of(context, member)
    available = [step for step in steps if step.value in stage.steps]
    if not available:
        effect.unmet_goals["worker-at-step"] = (
            f"the loop of the workers of {stage.name} has none of these steps: {', '.join(steps)}"
        )
        return None
    try:
        claims = context.processes.hold_at_step(
            member, available[-1], context.scaled(STEP_TIMEOUT_S), intended_end=intended_end
        )
    except WaitTimeout as error:  # a worker without inputs reaches no step
        effect.unmet_goals["worker-at-step"] = str(error)
        return None
    transactional_id = stage.transactional_id_of(member.worker or "", map(split_partition, claims))
    view = context.cluster.describe_transaction(transactional_id) if transactional_id is not None else None
    if transactional_id is None or view is None or view.state != "Ongoing":
        member.send(Command(go=True))
        effect.unmet_goals[GOAL] = (
            f"{member.journal} was held in a transaction of {transactional_id}, but the coordinator says: {view}"
        )
        return None
    return HeldWorker(
        member, stage, transactional_id, context.cluster.txn_coordinator(transactional_id), view
    )


def find_broker(context: FaultContext, number: int, role: str) -> Broker:
    """Return the broker with this number. Raises `FaultFailed` if there is none; `role` is for the message."""
    broker = next((broker for broker in context.cluster.brokers if broker.id == number), None)
    if broker is None:
        raise FaultFailed(f"{role} is broker {number}, which is not in this cluster")
    return broker


def find_leader(context: FaultContext, topic_partition: TopicPartition) -> int:
    """Return the broker that leads a partition, or -1 if there is none."""
    view = context.cluster.describe(topic_partition[0]).get(topic_partition[1])
    return view.leader if view is not None else -1


def other_leaders(context: FaultContext, coordinator: int, view: TransactionView) -> set[int]:
    """Return the leaders of the partitions that a transaction has written, without its coordinator.

    Only markers to these leaders can be held back by a cut: the coordinator needs no link to write markers to itself.
    """
    return {find_leader(context, topic_partition) for topic_partition in view.partitions} - {coordinator, -1}


@contextmanager
def hold_back_markers(context: FaultContext, coordinator: int, leaders: Collection[int]) -> Iterator[None]:
    """Hold back markers to these leaders until the end of the `with`. Raises `FaultFailed`.

    The coordinator uses the same links to fetch from these leaders, so its replicas fall out of sync. Until the leaders
    notice this (after `replica.lag.time.max.ms`), they acknowledge no record with acks=all.
    """
    links = [peer_link(coordinator, leader, "int") for leader in sorted(leaders)]
    with context.cluster.network.impose(links, Cut()):
        yield


def describe_transaction(coordinator: int, transactional_id: str, view: TransactionView) -> str:
    """Describe the state of a transaction in a sentence."""
    topic, number = view.partitions[0]
    other_partitions = f" and {len(view.partitions) - 1} more" if len(view.partitions) > 1 else ""
    return (
        f"broker {coordinator} said that {transactional_id} was in {view.state}, "
        f"with no marker yet in {topic}/{number}{other_partitions}"
    )
