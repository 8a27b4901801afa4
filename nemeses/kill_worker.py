"""kill-worker: kill a worker with SIGKILL at a named step of its loop, and replace it."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.vocabulary import WorkerStep
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
)
from harness.runner.occupied import uses_workers
from nemeses.aiming.targets import any_worker, worker_in_role

STEP_TIMEOUT_S = 45.0


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a worker and a step of its loop."""
    return any_worker(rng, targets, targets.steps)


@contextmanager
def kill_worker(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Kill the worker. The fault acted if the worker was at the step, and the signal ended its process."""
    processes = context.processes
    member = worker_in_role(processes, planned.target)
    step = WorkerStep(planned.step or WorkerStep.AFTER_SEND)
    effect = InjectedFault(
        target=f"worker {member.journal} at {step.value}", short_target=f"worker {member.journal}"
    )
    effect.details |= {"worker": member.journal, "step": step.value}
    try:
        processes.hold_at_step(member, step, context.scaled(STEP_TIMEOUT_S))
    except WaitTimeout as error:  # a worker without inputs reaches no step, so the fault is not injected
        effect.unmet_goals["worker-struck"] = str(error)
        yield effect
        return
    member.expected_to_end = True
    effect.mark_injected()
    ending = member.child.kill()
    if "SIGKILL" not in ending:
        raise FaultFailed(f"{member.journal} was not killed by the fault: {ending}")
    effect.add_proof(f"it waited at {step.value}; {ending}")
    replacement = processes.replace(member)
    processes.await_ready([replacement])
    effect.proof.append(f"{replacement.journal} took its place")
    yield effect


NEMESIS = Nemesis(
    name="kill-worker",
    summary="kill -9 a worker at a named step of its loop, and replace it",
    past_tense="was killed",
    proves="the worker was at the step, and the signal ended its process",
    occupies=uses_workers,
    hold_s=1.0,
    recovery_s=6.0,
    draw=draw,
    aimable=True,
    inject=kill_worker,
)
