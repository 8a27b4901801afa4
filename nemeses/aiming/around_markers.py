"""kill-broker, aimed at the markers: kill the leader of an output partition before or after its marker is written.

`before-markers`: the transaction is open, and its records are in the leader's log without a marker. The next leader
must write the marker. `after-markers`: the transaction is Complete, so every partition has its marker. The marker must
survive the death of the leader (KIP-98: markers are written with acks=all).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from harness.cluster import TransactionView
from harness.common.errors import WaitTimeout
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import WorkerStep
from harness.processes.control_line import Command
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from nemeses.aiming.failover import await_failover, other_broker
from nemeses.aiming.in_transaction import GOAL, HeldWorker, find_broker, find_leader, hold_in_transaction

BEFORE, AFTER = "before-markers", "after-markers"
STEP_TIMEOUT_S = 45.0
STATE_TIMEOUT_S = 10.0
IN_SYNC_TIMEOUT_S = 90.0


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
