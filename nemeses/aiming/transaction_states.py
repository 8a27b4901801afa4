"""kill-txn-coordinator, aimed at a state: kill the coordinator while a transaction is Ongoing or in Prepare.

For Prepare, a worker is held before it ends its transaction, and the markers are held back. So the coordinator writes
Prepare, and cannot write Complete. Then the coordinator is killed, and the next one must finish the transaction
(KIP-98).
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from harness.cluster import TransactionView
from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
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
    asked: str  # how the transaction is to end: commit or abort
    steps: tuple[WorkerStep, ...]  # the worker is held at the last of them that its loop has


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

    The fault acted if the coordinator reported this state before it was killed, and another broker took over.
    """
    cluster, aim = context.cluster, AIMS[planned.state or "ongoing"]
    effect = InjectedFault(target=f"coordinator of {planned.target.name}")
    unfit = partial(_unfit, context, aim)
    held = hold_in_transaction(context, planned, aim.asked, aim.steps, effect, unfit)
    if held is None:
        yield effect
        return
    transactional_id = held.transactional_id
    broker = find_broker(context, held.coordinator, f"the coordinator of {transactional_id}")
    effect.short_target = f"broker {broker.id}"
    effect.target = f"broker {broker.id}, transaction coordinator of {transactional_id}, in {aim.state}"
    effect.details |= {"broker": str(broker.id), "state": aim.state, **held.details}
    with ExitStack() as stack:
        stack.callback(broker.start)
        stack.callback(held.member.send, Command(go=True))
        with ExitStack() as cut:
            view = held.view if aim.state == "Ongoing" else _prepared(context, held, aim, effect, cut)
            if view is None:
                yield effect
                return
            effect.mark_injected()
            ending = broker.kill()
        held.member.send(Command(go=True))
        effect.proof += [describe_transaction(held.coordinator, transactional_id, view), ending]
        done = partial(await_failover, effect, ending)
        coordinates = partial(cluster.txn_coordinator, transactional_id)
        moved = done(
            partial(other_broker, coordinates, broker.id), f"another broker to coordinate {transactional_id}"
        )
        if moved is not None:
            settled = done(
                lambda: (
                    now
                    if (now := cluster.describe_transaction(transactional_id)) is not None
                    and now.state != aim.state
                    else None
                ),
                f"broker {moved} to take {transactional_id} out of {aim.state}",
            )
            if settled is not None:
                effect.add_proof(
                    f"broker {moved} took over its role, and {transactional_id} went on to {settled.state}"
                )
        yield effect
    cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)


def _prepared(
    context: FaultContext, held: HeldWorker, aim: TransactionAim, effect: InjectedFault, cut: ExitStack
) -> TransactionView | None:
    """Bring the transaction into Prepare and keep it there. None: it did not work, and the effect has the reason."""
    cluster, leaders = context.cluster, other_leaders(context, held.coordinator, held.view)
    cut.enter_context(hold_back_markers(context, held.coordinator, leaders))
    held.member.send(Command(go=True))
    seen: list[TransactionView | None] = [None]

    def prepared() -> TransactionView | None:
        seen[0] = cluster.describe_transaction(held.transactional_id)
        return seen[0] if seen[0] is not None and seen[0].state == aim.state and seen[0].partitions else None

    try:
        return wait_for(
            prepared,
            f"the transaction of {held.transactional_id} to be in {aim.state}",
            STATE_TIMEOUT_S,
            every_s=0.05,
            last_seen=lambda: seen[0],
        )
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
        return None


def _unfit(context: FaultContext, aim: TransactionAim, held: HeldWorker) -> str | None:
    """Return why a transaction cannot be kept in the state. None: it can."""
    if aim.state == "Ongoing" or other_leaders(context, held.coordinator, held.view):
        return None
    return f"broker {held.coordinator} leads all that the transaction of {held.transactional_id} has written"
