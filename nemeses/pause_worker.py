"""pause-worker: a worker is stopped inside a transaction until others have gone on in its place.

Then it goes on, and believes that nothing has happened: a zombie. What it does next must have no
effect.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random

from harness.errors import WaitTimeout
from harness.history import Step
from harness.record.naming import split_partition
from harness.runner.processes import Member
from harness.runner.schedule import Effect, FaultContext, FaultTargets, Injection, Lane, Nemesis
from harness.waiting import wait_for
from nemeses.targets import any_worker, worker_in_role

STEPS = (Step.AFTER_SEND, Step.AFTER_OFFSETS, Step.BEFORE_COMMIT)
STEP_TIMEOUT_S = 45.0
TAKE_OVER_TIMEOUT_S = 60.0
COME_BACK_TIMEOUT_S = 60.0


def draw(rng: Random, grounds: FaultTargets) -> tuple[str, str | None]:
    """Any worker, at a step at which its transaction is open."""
    return any_worker(rng, grounds, STEPS)


@contextmanager
def pause_worker(context: FaultContext, injection: Injection) -> Iterator[Effect]:
    """It acted if others had committed what it held when it came back."""
    member = worker_in_role(context.processes, injection.target)
    step = Step(injection.step or Step.AFTER_SEND)
    effect = Effect(target=f"worker {member.journal} at {step.value}")
    # Only in a transaction that is to commit: a zombie that would abort anyway proves nothing.
    claims = context.processes.wait_at_step(member, step, STEP_TIMEOUT_S, asked="commit")
    fenced_before = _fenced(member)
    begun_s = time.monotonic()
    stopped = member.child.pause()
    try:
        replacement = context.processes.replace(member)
        context.processes.await_ready([replacement])
        taken = _await_taken(context, member, claims)
        if taken:
            effect.saw(
                f"it stood at {step.value}; {stopped}; {taken} after {time.monotonic() - begun_s:.1f} s"
            )
        else:
            effect.lacking["zombie"] = f"{member.journal} was paused, but nobody went on in its place"
        yield effect
    finally:
        member.send(replaced=True, go=True)
        member.child.resume()
    effect.proof.append(_came_back(member, fenced_before))


def _await_taken(context: FaultContext, member: Member, claims: Mapping[str, list[int]]) -> str:
    """Wait until the group has committed past what the zombie holds; empty: it never did."""
    assert member.group is not None
    group = member.group

    def taken() -> str | None:
        committed = context.cluster.committed(group)
        for key, (_, following) in claims.items():
            if committed.get(split_partition(key), -1) >= following:
                return f"others had committed {key} up to {committed[split_partition(key)]}"
        return None

    try:
        return wait_for(taken, f"{group} to go on without {member.journal}", TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""


def _fenced(member: Member) -> int:
    return int(member.told.get("counts", {}).get("fenced", 0))


def _came_back(member: Member, fenced_before: int) -> str:
    """What the zombie was told when it went on."""

    def told() -> str | None:
        if _fenced(member) > fenced_before:
            return f"{member.journal} came back and was fenced"
        if not member.alive:
            return f"{member.journal} came back and ended, having met no fence"
        return None

    return wait_for(
        told, f"{member.journal} to come back", COME_BACK_TIMEOUT_S, last_seen=lambda: member.told
    )


NEMESIS = Nemesis(
    name="pause-worker",
    summary="SIGSTOP a worker inside a transaction, SIGCONT once others have its partitions: a zombie",
    lane=Lane.WORKER,
    hold_s=1.0,
    recovery_s=14.0,
    keeps_slot=True,
    draw=draw,
    strike=pause_worker,
)
