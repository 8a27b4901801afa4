"""pause-instance-unreplaced: pause an instance of a custom pipeline until others have processed its inputs: a zombie.

Nobody takes its transactional id, so no new producer fences it. When it is resumed, its transaction may still be open.
Only the group can reject its offsets, because they are from an earlier generation (KIP-447). A program that passes the
offsets with the id of the group alone, or with an earlier version of TxnOffsetCommit, processes these inputs twice.

The fault waits for a transaction whose offsets are not added yet. If they are added, others cannot fetch the committed
offsets (UNSTABLE_OFFSET_COMMIT) until the coordinator ends the transaction after its time-out. Then the instance is
fenced.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from harness.common.errors import WaitTimeout
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
)
from harness.runner.run_process import RunProcess
from nemeses.effects.instances import EXTRA_NEEDS, STATES, any_instance, in_groups, occupied_resources
from nemeses.effects.membership import await_inputs_committed
from nemeses.effects.stopped import BEFORE_OFFSETS
from nemeses.effects.zombie_instances import pause_until_taken_over
from nemeses.effects.zombie_workers import GOAL


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw an instance of a stage with a group and with other instances."""
    return any_instance(rng, in_groups(targets), least=2, prefers=BEFORE_OFFSETS, share=1.0)


@contextmanager
def pause_instance_unreplaced(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Pause the instance, wait until others have processed its inputs, and resume it."""
    with pause_until_taken_over(context, planned, _await_others) as effect:
        yield effect


def _await_others(
    context: FaultContext, member: RunProcess, effect: InjectedFault, departed: Callable[[], str]
) -> str:
    """Wait until the group has gone on, and has committed the inputs that the instance had."""
    departure = departed()
    if not departure:
        return ""
    try:
        committed = await_inputs_committed(context, member)
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = f"{departure}; but the others did not process its inputs: {error}"
        return ""
    proof = f"{departure}; {committed}"
    transactional_id = effect.details.get("transactional_id")
    if transactional_id is not None:
        view = context.cluster.describe_transaction(transactional_id)
        proof += f"; {transactional_id} was {view.state if view else 'not known'} before it was resumed"
    return proof


NEMESIS = Nemesis(
    name="pause-instance-unreplaced",
    summary="SIGSTOP an instance of your own program, SIGCONT after others have its inputs; nobody replaces it",
    past_tense="was paused until others had processed its inputs",
    proves="the group went on without it and committed its inputs, and it then ended, sent requests or rejoined",
    occupies=occupied_resources,
    hold_s=1.0,
    recovery_s=30.0,
    draw=draw,
    aimable=True,
    discovers_ids=True,
    discovers_members=True,
    states=STATES,
    extra_needs_by_state=EXTRA_NEEDS,
    inject=pause_instance_unreplaced,
)
