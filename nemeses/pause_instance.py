"""pause-instance: an instance of a user's program is stopped until its group has gone on without it, and comes back.

Then it is a zombie: it goes on with what it had in hand, which others have done by then. What it does must have no
effect. A group throws out who is silent for its session time-out, which is the program's own (Kafka's default is 45 s).

Aimed at prepare-commit it is stopped once its commit is accepted: that stands, and it wakes to the answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from harness.errors import WaitTimeout
from harness.runner.faults import (
    Drawn,
    Effect,
    FaultContext,
    FaultTargets,
    Injection,
    Nemesis,
    OfAnotherPipeline,
)
from harness.runner.member import Member
from harness.waiting import wait_for
from nemeses.instances import STATES, any_instance, await_followers, caught, occupied
from nemeses.pause_worker import GOAL
from nemeses.targets import worker_in_role

TAKE_OVER_TIMEOUT_S = 75.0
COME_BACK_TIMEOUT_S = 20.0


def draw(rng: Random, targets: FaultTargets) -> Drawn:
    """An instance of a program that has a group."""
    grouped = {stage: names for stage, names in targets.workers.items() if stage in targets.groups}
    if not grouped:
        raise OfAnotherPipeline("a pipeline of your own (--pipeline) with a group")
    steps = {stage: targets.steps.get(stage, ()) for stage in grouped}
    return any_instance(rng, replace(targets, workers=grouped, steps=steps))


@contextmanager
def pause_instance(context: FaultContext, injection: Injection) -> Iterator[Effect]:
    """It acted if the group had thrown it out and settled without it, and it then went on."""
    member = worker_in_role(context.processes, injection.target)
    effect = Effect(target=f"instance {member.journal}", who=f"instance {member.journal}")
    effect.details |= {"worker": member.journal}
    before = _members(context, member, effect)
    stopped = False
    if before:
        with caught(context, injection, member, effect) as stopped:
            pass  # what was held back is let go: the others must be able to go on
    if not stopped:
        yield effect
        await_followers(context, injection)
        return
    gone = ""
    try:
        replacement = context.processes.replace(member)
        gone = _await_gone(context, member, before)
        if gone:
            context.processes.await_ready([replacement])
        yield effect
    finally:
        member.child.resume()
    await_followers(context, injection)
    if not gone:
        effect.lacking[GOAL] = f"{member.journal} was paused, and its group did not go on without it"
        return
    effect.saw(f"{gone}; then {_came_back(member)}")


def _members(context: FaultContext, member: Member, effect: Effect) -> frozenset[str]:
    """Who is in its group, once that is stable; empty, and a note in the effect: it never was."""
    try:
        return frozenset(
            wait_for(
                lambda: context.cluster.members(member.group or ""),
                f"the group {member.group} to be stable",
                TAKE_OVER_TIMEOUT_S,
                every_s=0.2,
            )
        )
    except WaitTimeout as error:
        effect.lacking[GOAL] = str(error)
        return frozenset()


def _await_gone(context: FaultContext, member: Member, before: frozenset[str]) -> str:
    """Wait until a member that was there before is not, and the group has settled; empty: it never came to that."""

    def gone() -> str | None:
        now = context.cluster.members(member.group or "")
        if now is None or not before - set(now) or not now:
            return None
        return f"its group {member.group} went on without it, with {len(now)} members"

    try:
        return wait_for(
            gone, f"{member.group} to go on without {member.journal}", TAKE_OVER_TIMEOUT_S, every_s=0.2
        )
    except WaitTimeout:
        return ""


def _came_back(member: Member) -> str:
    """What became of it: it ended, or it still runs after some time in which its client must have met the others."""
    try:
        member.child.wait(COME_BACK_TIMEOUT_S)
    except WaitTimeout:
        return f"{member.journal} came back, and still runs after {COME_BACK_TIMEOUT_S:g} s"
    return f"{member.journal} came back and ended: {member.last_words()}"


NEMESIS = Nemesis(
    name="pause-instance",
    summary="SIGSTOP an instance of your own program, SIGCONT once its group has gone on without it: a zombie",
    past_tense="was paused and replaced",
    occupies=occupied,
    hold_s=1.0,
    recovery_s=30.0,
    keeps_slot=True,
    draw=draw,
    aimable=True,
    states=STATES,
    strike=pause_instance,
)
