"""Instances of a user's program: how one is chosen, and caught in the midst of a transaction.

Such a program says nothing of what it does. What its transaction coordinator says is enough: the instance is stopped,
and then nobody but the coordinator can move its transaction on; if that is not where it is wanted, it goes on again.
"""

from collections.abc import Callable
from random import Random

from harness.cluster import TransactionView
from harness.errors import WaitTimeout
from harness.pipeline import CONSUMER_OFFSETS
from harness.runner.faults import (
    Drawn,
    Effect,
    FaultContext,
    FaultTargets,
    Injection,
    OfAnotherPipeline,
    Target,
)
from harness.runner.member import Member
from harness.waiting import wait_for
from nemeses.in_transaction import GOAL, stage_of

ONGOING, OFFSETS_ADDED = "ongoing", "offsets-added"
STATES = frozenset({ONGOING, OFFSETS_ADDED})
"""Where a transaction can be caught: it is open, or its offsets are in it as well."""
CATCH_TIMEOUT_S = 45.0


def any_instance(rng: Random, targets: FaultTargets) -> Drawn:
    """An instance of a program that has no steps to tell of. Raises `OfAnotherPipeline`."""
    stages = [
        stage for stage, names in sorted(targets.workers.items()) if names and not targets.steps.get(stage)
    ]
    if targets.stage is not None:
        stages = [stage for stage in stages if stage == targets.stage]
    if not stages:
        raise OfAnotherPipeline("a pipeline of your own (--pipeline)")
    stage = rng.choice(stages)
    return Drawn(Target("worker", f"{stage}/{rng.choice(targets.workers[stage])}"))


def caught(context: FaultContext, injection: Injection, member: Member, effect: Effect) -> bool:
    """Stop the instance; where the fault is aimed at a state of its transaction, in that state. False, and a note in
    the effect, where it does not come there: then it goes on.
    """
    state = injection.state
    if state is None:
        effect.strikes()
        try:
            effect.proof.append(member.child.pause())
        except WaitTimeout as error:  # it had just ended, as one that was fenced is right to do
            effect.lacking[GOAL] = str(error)
            return False
        return True
    own = stage_of(context, member).transactional_ids.get(member.worker or "")
    if own is None:
        effect.lacking[GOAL] = f"nobody knows the transactional id of {member.journal}"
        return False
    try:
        view = wait_for(
            _stopped_in(context, member, own, _meets(state)),
            f"{member.journal} to be in a transaction of {own} that is {state}",
            CATCH_TIMEOUT_S,
            every_s=0.002,
            last_seen=lambda: context.cluster.transaction(own),
        )
    except WaitTimeout as error:
        effect.lacking[GOAL] = str(error)
        return False
    effect.strikes()
    topics = sorted({topic for topic, _ in view.places})
    effect.proof.append(f"{member.journal} was stopped while {own} was {view.state} with {', '.join(topics)}")
    effect.details |= {"state": state, "transactional_id": own}
    return True


def _meets(state: str) -> Callable[[TransactionView | None], bool]:
    def met(view: TransactionView | None) -> bool:
        if view is None or view.state != "Ongoing":
            return False
        return state == ONGOING or any(topic == CONSUMER_OFFSETS for topic, _ in view.places)

    return met


def _stopped_in(
    context: FaultContext, member: Member, own: str, met: Callable[[TransactionView | None], bool]
) -> Callable[[], TransactionView | None]:
    """Looks once; the instance is stopped where what it looks for is given."""

    def look() -> TransactionView | None:
        if not member.alive:
            raise WaitTimeout(
                f"{member.journal} to begin a transaction", 0, f"it ended: {member.last_words()}"
            )
        if not met(context.cluster.transaction(own)):
            return None
        member.child.pause()
        view, held = None, False
        try:
            view = context.cluster.transaction(own)
            held = met(view)
        finally:  # also where nobody answers
            if not held:
                member.child.resume()
        return view if held else None

    return look
