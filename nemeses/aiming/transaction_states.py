"""Kill a broker while a transaction is in a certain state: its coordinator, or the leader of an output partition.

kill-txn-coordinator kills the coordinator while a transaction is Ongoing or in Prepare. For Prepare, a worker is held
before it ends its transaction, and the markers are held back. Then the worker continues. The coordinator writes
Prepare, and cannot write Complete. Then the coordinator is killed, and the next one must finish the transaction
(KIP-98).

kill-broker kills the leader of an output partition before or after its marker is written. `before-markers`: the
transaction is open, and its records are in the leader's log without a marker. The next leader must write the marker.
`after-markers`: the transaction is Complete, so every partition has its marker. The marker must survive the death of
the leader (KIP-98: markers are written with acks=all).
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from harness.cluster import TransactionView
from harness.common.errors import WaitTimeout
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import WorkerStep
from harness.processes.messages import Command
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from nemeses.aiming.in_transaction import (
    GOAL,
    HeldWorker,
    describe_transaction,
    find_broker,
    find_leader,
    hold_back_markers,
    hold_in_transaction,
    other_leaders,
)
from nemeses.aiming.roles import await_failover, other_broker

BEFORE, AFTER = "before-markers", "after-markers"
STEP_TIMEOUT_S = 45.0
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


@contextmanager
def kill_around_markers(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Kill the leader of a partition that a transaction in the state `planned.state` has written.

    The fault acted if the transaction was in this state when the leader was killed.
    """
    effect = InjectedFault(target=f"leader of {planned.target.name}")
    held_worker = hold_in_transaction(context, planned, "commit", (WorkerStep.BEFORE_COMMIT,), effect)
    if held_worker is None:
        yield effect
        return
    with ExitStack() as stack:
        stack.callback(held_worker.member.send, Command(go=True))
        topic_partition = _find_output(held_worker, effect)
        state_proof = (
            _await_state(context, held_worker, planned.state or BEFORE, topic_partition, effect)
            if topic_partition is not None
            else None
        )
        if topic_partition is None or state_proof is None:
            yield effect
            return
        partition_name = f"{topic_partition[0]}/{topic_partition[1]}"
        first = find_leader(context, topic_partition)
        broker = find_broker(context, first, f"the leader of {partition_name}")
        effect.short_target = f"broker {first}"
        effect.target = (
            f"broker {first}, leader of {partition_name}, {(planned.state or BEFORE).replace('-', ' the ')}"
        )
        effect.details |= {"broker": str(first), "partition": partition_name}
        effect.details |= {"state": planned.state or BEFORE, **held_worker.details}
        stack.callback(broker.start)
        effect.mark_injected()
        ending = broker.kill()
        held_worker.member.send(Command(go=True))
        effect.proof += [state_proof, ending]
        successor = await_failover(
            context,
            effect,
            ending,
            partial(other_broker, partial(find_leader, context, topic_partition), first),
            f"{partition_name} to leave broker {first}",
        )
        if successor is not None:
            effect.add_proof(f"broker {successor} leads {partition_name} now")
        yield effect
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)


def _find_output(held_worker: HeldWorker, effect: InjectedFault) -> TopicPartition | None:
    """Return an output partition that the transaction has written. None if there is none; the effect says so."""
    written = [
        topic_partition
        for topic_partition in held_worker.view.partitions
        if topic_partition[0] in held_worker.stage.writes
    ]
    if not written:
        effect.unmet_goals[GOAL] = f"the transaction of {held_worker.transactional_id} had written no output"
        return None
    return written[0]


def _await_state(
    context: FaultContext,
    held_worker: HeldWorker,
    state: str,
    topic_partition: TopicPartition,
    effect: InjectedFault,
) -> str | None:
    """Wait until the transaction is in the state, and return the proof.

    None if it did not come into the state in time. Then the effect has the reason.
    """
    partition_name = f"{topic_partition[0]}/{topic_partition[1]}"
    if state == BEFORE:
        return (
            f"{held_worker.transactional_id} was Ongoing, with records in {partition_name} and no marker yet"
        )
    try:
        context.processes.hold_at_step(
            held_worker.member,
            WorkerStep.AFTER_COMMIT,
            context.scaled(STEP_TIMEOUT_S),
            intended_end="commit",
            resume=True,
        )
    except WaitTimeout as error:
        effect.unmet_goals["worker-at-step"] = str(error)
        return None
    view: TransactionView | None = None

    def complete() -> bool:
        nonlocal view
        view = context.cluster.describe_transaction(held_worker.transactional_id)
        return view is not None and view.state == "CompleteCommit"

    try:
        context.wait_for(
            complete,
            f"the transaction of {held_worker.transactional_id} to be complete",
            STATE_TIMEOUT_S,
            every_s=0.05,
            last_seen=lambda: view,
        )
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
        return None
    return f"{held_worker.transactional_id} was CompleteCommit: {partition_name} had its marker"
