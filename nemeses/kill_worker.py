"""kill-worker: a worker ends by SIGKILL at a named step of its loop, and is replaced."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.errors import FaultFailed
from harness.history import Step
from harness.schedule import Acted, Grounds, Lane, Nemesis, Scene, Strike
from nemeses.targets import any_worker, worker_in_role

STEPS = tuple(Step)
STEP_TIMEOUT_S = 45.0


def draw(rng: Random, grounds: Grounds) -> tuple[str, str | None]:
    """Any worker, at any step."""
    return any_worker(rng, grounds, STEPS)


@contextmanager
def kill_worker(scene: Scene, strike: Strike) -> Iterator[Acted]:
    """It acted if the worker stood at the step and its process ended by the signal."""
    member = worker_in_role(scene.crew, strike.target)
    step = Step(strike.step or Step.AFTER_SEND)
    acted = Acted(target=f"worker {member.journal} at {step.value}")
    scene.crew.bring_to(member, step, STEP_TIMEOUT_S)
    member.expected_to_end = True
    ending = member.child.kill()
    if "SIGKILL" not in ending:
        raise FaultFailed(f"{member.journal} was to be killed, but {ending}")
    acted.saw(f"it stood at {step.value}; {ending}")
    replacement = scene.crew.replace(member)
    scene.crew.await_ready([replacement])
    acted.proof.append(f"{replacement.journal} took its place")
    yield acted


NEMESIS = Nemesis(
    name="kill-worker",
    summary="kill -9 a worker at a named step of its loop; another takes its place",
    lane=Lane.WORKER,
    hold_s=1.0,
    recovery_s=6.0,
    draw=draw,
    strike=kill_worker,
)
