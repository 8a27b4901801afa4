"""pause-instance: an instance of a user's program is stopped until its group has gone on without it, and comes back.

Then it is a zombie: it goes on with what it had in hand, which others have done by then. What it does must have no
effect. A group throws out who is silent for its session time-out, which is the program's own (Kafka's default is 45 s).

Aimed at prepare-commit it is stopped once its commit is accepted: that stands, and it wakes to the answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from harness.errors import StartFailed, WaitTimeout
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
from nemeses.instances import (
    MORE_IN,
    STATES,
    any_instance,
    at_work,
    await_followers,
    caught,
    effect_on,
    note_unready,
    occupied,
)
from nemeses.membership import await_gone, members
from nemeses.overhearing import own_ids
from nemeses.pause_worker import GOAL

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
    member, unready = at_work(context, injection.target)
    effect = effect_on(member)
    try:
        first = members(context, member)
    except WaitTimeout as error:
        effect.lacking[GOAL] = str(error)
        yield effect
        return
    own: frozenset[str] = frozenset()
    gone = ""

    def identify(target: Member) -> None:
        nonlocal own
        own = own_ids(context, target)

    try:
        with caught(context, injection, member, effect, identify) as (member, stopped):
            note_unready(effect, unready)  # what was held back is let go: the others must be able to go on
        if stopped:
            now = context.cluster.members(member.group or "")
            before = first if now is None else frozenset(now)
            replacement = context.processes.replace(member)
            gone = await_gone(context, member, own & before, before)
            if gone:
                _await_replacement(context, replacement, effect)
        yield effect
    finally:
        member.child.resume()
    await_followers(context, injection)
    if not stopped:
        return
    if not gone:
        effect.lacking[GOAL] = f"{member.journal} was paused, and its group did not go on without it"
        return
    effect.saw(f"{gone}; then {_came_back(member)}")


def _await_replacement(context: FaultContext, replacement: Member, effect: Effect) -> None:
    """Wait until it is ready. One that has ended meanwhile is started again as any other: the group has gone on."""
    try:
        context.processes.await_ready([replacement])
    except (StartFailed, WaitTimeout) as error:
        effect.proof.append(str(error))


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
    overhears=True,
    states=STATES,
    more_in=MORE_IN,
    strike=pause_instance,
)
