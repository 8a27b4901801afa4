"""kill-broker, aimed at the markers: kill the leader of an output partition before or after its marker is written.

Before: the transaction is open, and its records are in the leader's log without a marker. The next leader must write
the marker. After: the transaction is Complete, so every partition has its marker. The marker must survive the death
of the leader (KIP-98: markers are written with acks=all).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from harness.cluster import TransactionView
from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
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
    """Kill the leader of a partition of a transaction that is in the state `planned.state`.

    The fault acted if the transaction was in this state when the leader was killed.
    """
    effect = InjectedFault(target=f"leader of {planned.target.name}")
    held = hold_in_transaction(context, planned, "commit", (WorkerStep.BEFORE_COMMIT,), effect)
    if held is None:
        yield effect
        return
    with ExitStack() as stack:
        stack.callback(held.member.send, Command(go=True))
        topic_partition = _output(held, effect)
        words = (
            _state(context, held, planned.state or BEFORE, topic_partition, effect)
            if topic_partition is not None
            else None
        )
        if topic_partition is None or words is None:
            yield effect
            return
        named = f"{topic_partition[0]}/{topic_partition[1]}"
        first = find_leader(context, topic_partition)
        broker = find_broker(context, first, f"the leader of {named}")
        effect.short_target = f"broker {first}"
        effect.target = (
            f"broker {first}, leader of {named}, {(planned.state or BEFORE).replace('-', ' the ')}"
        )
        effect.details |= {"broker": str(first), "partition": named, "state": planned.state or BEFORE}
        effect.details |= held.details
        stack.callback(broker.start)
        effect.mark_injected()
        ending = broker.kill()
        held.member.send(Command(go=True))
        effect.proof += [words, ending]
        moved = await_failover(
            effect,
            ending,
            partial(other_broker, partial(find_leader, context, topic_partition), first),
            f"{named} to leave broker {first}",
        )
        if moved is not None:
            effect.add_proof(f"broker {moved} leads {named} now")
        yield effect
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)


def _output(held: HeldWorker, effect: InjectedFault) -> TopicPartition | None:
    """Return an output partition that the transaction has written. None: there is none, and the effect says so."""
    written = [
        topic_partition for topic_partition in held.view.partitions if topic_partition[0] in held.stage.writes
    ]
    if not written:
        effect.unmet_goals[GOAL] = f"the transaction of {held.transactional_id} had written no output"
        return None
    return written[0]


def _state(
    context: FaultContext,
    held: HeldWorker,
    state: str,
    topic_partition: TopicPartition,
    effect: InjectedFault,
) -> str | None:
    """Wait until the transaction is in the state, and return the proof. None: it was not; the effect has the reason."""
    named = f"{topic_partition[0]}/{topic_partition[1]}"
    if state == BEFORE:
        return f"{held.transactional_id} was Ongoing, with records in {named} and no marker yet"
    try:
        context.processes.wait_at_step(
            held.member, WorkerStep.AFTER_COMMIT, STEP_TIMEOUT_S, txn_end="commit", resume=True
        )
    except WaitTimeout as error:
        effect.unmet_goals["worker-at-step"] = str(error)
        return None
    seen: list[TransactionView | None] = [None]

    def complete() -> bool:
        seen[0] = context.cluster.describe_transaction(held.transactional_id)
        return seen[0] is not None and seen[0].state == "CompleteCommit"

    try:
        wait_for(
            complete,
            f"the transaction of {held.transactional_id} to be complete",
            STATE_TIMEOUT_S,
            every_s=0.05,
            last_seen=lambda: seen[0],
        )
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
        return None
    return f"{held.transactional_id} was CompleteCommit: {named} had its marker"
