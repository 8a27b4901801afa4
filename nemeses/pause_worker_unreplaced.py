"""pause-worker-unreplaced: pause a worker inside a transaction until others have processed its inputs, and resume it.

Nobody takes its transactional id, so no new producer fences it. Its transaction may still be open when it continues.
Only the group can reject its offsets (KIP-447). If its stage has no group, it is paused until the coordinator has ended
its transaction after the time-out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
)
from harness.runner.occupied import uses_workers
from nemeses.aiming.targets import any_worker
from nemeses.effects.zombie_workers import PROVES, PausedWorker, await_others, id_of, pause_until_taken_over

REQUIREMENT = "a step at which a worker has polled inputs that another worker of its stage can take over"


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a worker, and a step at which pausing it leaves a zombie. A stage with a group needs a second worker."""
    steps = {
        stage: steps if len(targets.workers[stage]) > 1 or stage not in targets.groups else ()
        for stage, steps in targets.zombie_steps.items()
    }
    return any_worker(rng, targets, steps, REQUIREMENT)


@contextmanager
def pause_worker_unreplaced(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Pause the worker, wait until others have processed its inputs, and resume it."""
    with pause_until_taken_over(context, planned, _await_others, replaced=False) as effect:
        yield effect


def _await_others(context: FaultContext, paused: PausedWorker) -> str:
    transactional_id = id_of(context, paused.member, paused.claims)
    at_pause = context.cluster.describe_transaction(transactional_id)

    def transaction_ended() -> str | None:
        view = context.cluster.describe_transaction(transactional_id)
        if view is None or view == at_pause or view.state != "CompleteAbort":
            return None
        return f"the coordinator had aborted its transaction of {transactional_id} after the time-out"

    return await_others(context, paused, transaction_ended)


NEMESIS = Nemesis(
    name="pause-worker-unreplaced",
    summary="SIGSTOP a worker inside a transaction, SIGCONT after others have its inputs; nobody replaces it",
    past_tense="was paused until others had processed its inputs",
    proves=PROVES,
    occupies=uses_workers,
    hold_s=1.0,
    recovery_s=14.0,
    draw=draw,
    aimable=True,
    by_default=False,
    inject=pause_worker_unreplaced,
)
