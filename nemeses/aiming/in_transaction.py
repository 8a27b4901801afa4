"""A worker held inside a transaction, and what its coordinator says of that: for faults that strike a transaction."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.cluster import Broker, TransactionView
from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.pipeline import StageSpec, TopicPartition
from harness.model.vocabulary import WorkerStep
from harness.processes.control_line import Command
from harness.record.naming import split_partition
from harness.runner.member import RunProcess
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from nemeses.aiming.targets import workers_behind

STEP_TIMEOUT_S = 60.0
"""One transaction in fifty aborts: that takes a while."""
GOAL = "transaction-state"


@dataclass(frozen=True)
class HeldWorker:
    """A worker that stands before the end of its transaction, and who coordinates that."""

    member: RunProcess
    stage: StageSpec
    transactional_id: str  # its transactional id
    coordinator: int
    view: TransactionView

    @property
    def details(self) -> dict[str, str]:
        """Who it is, as a fault tells it."""
        return {"worker": self.member.journal, "transactional_id": self.transactional_id}


def stage_of(context: FaultContext, member: RunProcess) -> StageSpec:
    """The stage of a worker."""
    return next(stage for stage in context.stages if stage.name == member.stage)


def hold_in_transaction(
    context: FaultContext,
    planned: PlannedFault,
    asked: str,
    steps: tuple[WorkerStep, ...],
    effect: InjectedFault,
    unfit: Callable[[HeldWorker], str | None] = lambda held: None,
) -> HeldWorker | None:
    """Hold a worker in an open transaction that is to end as `asked`, at the last of these steps that its loop has.

    `unfit` says why a transaction cannot be struck; then another worker is held. None, and a note in the effect, where
    none comes there: then nothing was struck.
    """
    why = None
    for member in workers_behind(context, planned):
        held = _hold(context, member, asked, steps, effect)
        if held is None:
            return None
        why = unfit(held)
        if why is None:
            return held
        member.send(Command(go=True))
    effect.unmet_goals[GOAL] = why or f"no worker of {planned.target} is alive"
    return None


def _hold(
    context: FaultContext,
    member: RunProcess,
    asked: str,
    steps: tuple[WorkerStep, ...],
    effect: InjectedFault,
) -> HeldWorker | None:
    stage = stage_of(context, member)
    reached = [step for step in steps if step.value in stage.steps]
    if not reached:
        effect.unmet_goals["worker-at-step"] = (
            f"the workers of {stage.name} come to none of these steps: {', '.join(steps)}"
        )
        return None
    try:
        claims = context.processes.wait_at_step(member, reached[-1], STEP_TIMEOUT_S, asked=asked)
    except WaitTimeout as error:  # a worker that has nothing to do comes to no step
        effect.unmet_goals["worker-at-step"] = str(error)
        return None
    transactional_id = stage.transactional_id_of(member.worker or "", map(split_partition, claims))
    view = context.cluster.describe_transaction(transactional_id) if transactional_id is not None else None
    if transactional_id is None or view is None or view.state != "Ongoing":
        member.send(Command(go=True))
        effect.unmet_goals[GOAL] = (
            f"{member.journal} stood in a transaction of {transactional_id}, of which its coordinator says {view}"
        )
        return None
    return HeldWorker(
        member, stage, transactional_id, context.cluster.txn_coordinator(transactional_id), view
    )


def find_broker(context: FaultContext, number: int, role: str) -> Broker:
    """The broker of that number. Raises `FaultFailed`."""
    found = next((broker for broker in context.cluster.brokers if broker.id == number), None)
    if found is None:
        raise FaultFailed(f"{role} is broker {number}, which is not of this cluster")
    return found


def find_leader(context: FaultContext, place: TopicPartition) -> int:
    """Who leads a partition; -1: nobody."""
    view = context.cluster.describe(place[0]).get(place[1])
    return view.leader if view is not None else -1
