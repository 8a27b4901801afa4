"""pause-worker: pause a worker inside a transaction until others have processed its inputs, and resume it: a zombie.

It is replaced by a worker with the same transactional id. The zombie then continues its transaction. Its next requests
must have no effect. `pause-worker-unreplaced` does the same without a replacement.
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
from nemeses.effects.zombie_workers import PROVES, PausedWorker, await_others, pause_until_taken_over


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a worker, and a step at which pausing it leaves a zombie."""
    return any_worker(rng, targets, targets.zombie_steps, "a step at which a worker has polled inputs")


@contextmanager
def pause_worker(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Pause the worker, replace it, and resume it."""
    with pause_until_taken_over(context, planned, _replace, replaced=True) as effect:
        yield effect


def _replace(context: FaultContext, paused: PausedWorker) -> str:
    replacement = context.processes.replace(paused.member)
    context.processes.await_ready([replacement])

    def committed() -> str | None:
        return (
            f"{replacement.journal} had committed in its place"
            if replacement.status.counts.committed
            else None
        )

    return await_others(context, paused, committed)


NEMESIS = Nemesis(
    name="pause-worker",
    summary="SIGSTOP a worker inside a transaction, SIGCONT after others have its partitions: a zombie",
    past_tense="was paused and replaced",
    proves=PROVES,
    occupies=uses_workers,
    hold_s=1.0,
    recovery_s=14.0,
    keeps_endpoint=True,
    draw=draw,
    aimable=True,
    inject=pause_worker,
)
