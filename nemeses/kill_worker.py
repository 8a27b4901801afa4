"""kill-worker: a worker ends by SIGKILL at a named step of its loop, and is replaced."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.errors import FaultFailed, WaitTimeout
from harness.history import Step
from harness.runner.faults import Drawn, Effect, FaultContext, FaultTargets, Injection, Nemesis
from harness.runner.occupied import all_workers
from nemeses.targets import any_worker, worker_in_role

STEP_TIMEOUT_S = 45.0


def draw(rng: Random, targets: FaultTargets) -> Drawn:
    """Any worker, at any step."""
    return any_worker(rng, targets, targets.steps)


@contextmanager
def kill_worker(context: FaultContext, injection: Injection) -> Iterator[Effect]:
    """It acted if the worker stood at the step and its process ended by the signal."""
    processes = context.processes
    member = worker_in_role(processes, injection.target)
    step = Step(injection.step or Step.AFTER_SEND)
    effect = Effect(target=f"worker {member.journal} at {step.value}", who=f"worker {member.journal}")
    effect.details |= {"worker": member.journal, "step": step.value}
    try:
        processes.wait_at_step(member, step, STEP_TIMEOUT_S)
    except WaitTimeout as error:  # a worker that has nothing to do comes to no step: nothing was struck
        effect.lacking["worker-struck"] = str(error)
        yield effect
        return
    member.expected_to_end = True
    effect.strikes()
    ending = member.child.kill()
    if "SIGKILL" not in ending:
        raise FaultFailed(f"{member.journal} was to be killed, but {ending}")
    effect.saw(f"it stood at {step.value}; {ending}")
    replacement = processes.replace(member)
    processes.await_ready([replacement])
    effect.proof.append(f"{replacement.journal} took its place")
    yield effect


NEMESIS = Nemesis(
    name="kill-worker",
    summary="kill -9 a worker at a named step of its loop; another takes its place",
    past_tense="was killed",
    occupies=all_workers,
    hold_s=1.0,
    recovery_s=6.0,
    draw=draw,
    aimable=True,
    strike=kill_worker,
)
