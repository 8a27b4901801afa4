"""kill-txn-coordinator, aimed at a state: kill the coordinator while a transaction is Ongoing or in Prepare.

For Prepare, a worker is held before it ends its transaction, and the markers are held back. Then the worker continues.
The coordinator writes Prepare, and cannot write Complete. Then the coordinator is killed, and the next one must finish
the transaction (KIP-98).
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from harness.cluster import TransactionView
from harness.common.errors import WaitTimeout
from harness.model.vocabulary import WorkerStep
from harness.processes.control_line import Command
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from nemeses.aiming.failover import await_failover, other_broker
from nemeses.aiming.in_transaction import GOAL, HeldWorker, find_broker, hold_in_transaction
from nemeses.aiming.markers import describe_transaction, hold_back_markers, other_leaders

STATE_TIMEOUT_S = 10.0
IN_SYNC_TIMEOUT_S = 90.0


@dataclass(frozen=True)
class TransactionAim:
    """A state of a transaction, and how to bring a transaction into it."""

    state: str  # Kafka's name
    intended_end: str  # how the worker is to end the transaction: commit or abort
    steps: tuple[WorkerStep, ...]  # the worker is held at the last of these steps that its loop has


AIMS: Mapping[str, TransactionAim] = {
    "ongoing": TransactionAim("Ongoing", "commit", (WorkerStep.BEFORE_COMMIT,)),
    "prepare-commit": TransactionAim("PrepareCommit", "commit", (WorkerStep.BEFORE_COMMIT,)),
    "prepare-abort": TransactionAim(
        "PrepareAbort", "abort", (WorkerStep.AFTER_SEND, WorkerStep.AFTER_OFFSETS)
    ),
}
STATES_WITHOUT_MARKERS = frozenset(AIMS) - {"ongoing"}
"""The states in which markers are held back, by cuts of links between brokers."""


@contextmanager
def kill_in_state(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Kill the coordinator of a transaction in the state `planned.state`.

    The fault acted if the coordinator reported this state before it was killed, and if another broker took over and
    brought the transaction out of this state.
    """
    cluster, aim = context.cluster, AIMS[planned.state or "ongoing"]
    effect = InjectedFault(target=f"coordinator of {planned.target.name}")
    unfit = partial(_unfit, context, aim)
    held_worker = hold_in_transaction(context, planned, aim.intended_end, aim.steps, effect, unfit)
    if held_worker is None:
        yield effect
        return
    transactional_id = held_worker.transactional_id
    broker = find_broker(context, held_worker.coordinator, f"the coordinator of {transactional_id}")
    effect.short_target = f"broker {broker.id}"
    effect.target = f"broker {broker.id}, transaction coordinator of {transactional_id}, in {aim.state}"
    effect.details |= {"broker": str(broker.id), "state": aim.state, **held_worker.details}
    with ExitStack() as stack:
        stack.callback(broker.start)
        stack.callback(held_worker.member.send, Command(go=True))
        with ExitStack() as cut:
            view = (
                held_worker.view
                if aim.state == "Ongoing"
                else _hold_in_prepare(context, held_worker, aim, effect, cut)
            )
            if view is None:
                yield effect
                return
            effect.mark_injected()
            ending = broker.kill()
        held_worker.member.send(Command(go=True))
        effect.proof += [describe_transaction(held_worker.coordinator, transactional_id, view), ending]
        await_recovery = partial(await_failover, context, effect, ending)
        find_coordinator = partial(cluster.txn_coordinator, transactional_id)
        successor = await_recovery(
            partial(other_broker, find_coordinator, broker.id),
            f"another broker to coordinate {transactional_id}",
        )
        if successor is not None:
            next_view = await_recovery(
                lambda: (
                    now
                    if (now := cluster.describe_transaction(transactional_id)) is not None
                    and now.state != aim.state
                    else None
                ),
                f"broker {successor} to take {transactional_id} out of {aim.state}",
            )
            if next_view is not None:
                effect.add_proof(
                    f"broker {successor} took over its role, and {transactional_id} went on to {next_view.state}"
                )
        yield effect
    cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)


def _hold_in_prepare(
    context: FaultContext, held_worker: HeldWorker, aim: TransactionAim, effect: InjectedFault, cut: ExitStack
) -> TransactionView | None:
    """Bring the transaction into Prepare and keep it there until `cut` is closed.

    None if it does not come into Prepare. Then the effect has the reason.
    """
    cluster, leaders = context.cluster, other_leaders(context, held_worker.coordinator, held_worker.view)
    cut.enter_context(hold_back_markers(context, held_worker.coordinator, leaders))
    held_worker.member.send(Command(go=True))
    view: TransactionView | None = None

    def prepared() -> TransactionView | None:
        nonlocal view
        view = cluster.describe_transaction(held_worker.transactional_id)
        return view if view is not None and view.state == aim.state and view.partitions else None

    try:
        return context.wait_for(
            prepared,
            f"the transaction of {held_worker.transactional_id} to be in {aim.state}",
            STATE_TIMEOUT_S,
            every_s=0.05,
            last_seen=lambda: view,
        )
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
        return None


def _unfit(context: FaultContext, aim: TransactionAim, held_worker: HeldWorker) -> str | None:
    """Return the reason why a transaction cannot be kept in the state. None if it can."""
    if aim.state == "Ongoing" or other_leaders(context, held_worker.coordinator, held_worker.view):
        return None
    return (
        f"broker {held_worker.coordinator} leads every partition that the transaction of "
        f"{held_worker.transactional_id} has written"
    )
