"""Instances of a user's program: how one is chosen, and caught where a fault is aimed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import Random

from harness.cluster import Ability, TransactionView
from harness.errors import WaitTimeout
from harness.runner.at_state import AtState
from harness.runner.faults import (
    Drawn,
    Effect,
    FaultContext,
    FaultTargets,
    Injection,
    OfAnotherPipeline,
    Resource,
    Target,
)
from harness.runner.member import Member
from harness.runner.occupied import all_workers, brokers_and_a_worker
from harness.waiting import wait_for
from nemeses.in_transaction import GOAL, stage_of
from nemeses.markers import described
from nemeses.overhearing import IDENTIFY_TIMEOUT_S, own_id
from nemeses.stopped import OFFSETS_ADDED, ONGOING, PREPARE_COMMIT, PREPARES_S, stop_in, stop_prepared
from nemeses.targets import worker_in_role

STATES = frozenset({ONGOING, OFFSETS_ADDED, PREPARE_COMMIT})
"""Where a transaction can be caught: it is open, its offsets are in it as well, or it is decided and not all of its
markers are written."""
MORE_IN = {PREPARE_COMMIT: AtState(PREPARES_S, frozenset({Ability.PEER_LINKS}), least_brokers=2)}
"""Markers are held back on the links between brokers."""
PREFERS_OPEN = 2 / 3
"""How often one that is not aimed waits for an open transaction. Most programs have one for a small part of the time
only; a program that is right in a transaction may be wrong between two.
"""
SOON_S = 5.0
"""For how long."""
IN_SYNC_TIMEOUT_S = 90.0
AT_WORK_TIMEOUT_S = 20.0


def occupied(injection: Injection) -> frozenset[Resource]:
    """What a fault that strikes an instance takes: the links between brokers too, where markers are held back."""
    prepared = injection.state == PREPARE_COMMIT
    return brokers_and_a_worker(injection) if prepared else all_workers(injection)


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
    target = Target("worker", f"{stage}/{rng.choice(targets.workers[stage])}")
    transactional = bool(targets.transactional_ids.get(stage)) or stage in targets.unnamed
    prefers = transactional and rng.random() < PREFERS_OPEN
    return Drawn(target, {"prefers": ONGOING} if prefers else {})


@contextmanager
def caught(context: FaultContext, injection: Injection, member: Member, effect: Effect) -> Iterator[bool]:
    """Stop the instance; where the fault is aimed at a state of its transaction, in that state, in which it is kept for
    the length of a `with`. False, and a note in the effect, where it does not come there: then it goes on.
    """
    with ExitStack() as cut:
        yield _caught(context, injection, member, effect, cut)


def _caught(
    context: FaultContext, injection: Injection, member: Member, effect: Effect, cut: ExitStack
) -> bool:
    state = injection.state
    if state is None:
        return _met_open(context, injection, member, effect) or _stopped_as_it_is(member, effect)
    own = _id_of(context, member)
    if own is None:
        effect.lacking[GOAL] = (
            f"{member.journal} spoke of no transactional id for {IDENTIFY_TIMEOUT_S:g} s: name it in its "
            "stage, or say transactions = false there if it has none"
        )
        return False
    try:
        if state == PREPARE_COMMIT:
            view = stop_prepared(context, member, own, cut)
        else:
            view = stop_in(context, member, own, state)
    except WaitTimeout as error:
        effect.lacking[GOAL] = str(error)
        return False
    more = (
        f": {described(context.cluster.txn_coordinator(own), own, view)}" if state == PREPARE_COMMIT else ""
    )
    _note(effect, member, own, view, more)
    effect.details["state"] = state
    return True


def _met_open(context: FaultContext, injection: Injection, member: Member, effect: Effect) -> bool:
    """Whether it is preferred, and soon comes, that the instance has an open transaction, in which it is stopped."""
    if injection.prefers is None or (own := _id_of(context, member)) is None:
        return False
    try:
        view = stop_in(context, member, own, injection.prefers, SOON_S)
    except WaitTimeout:
        return False
    _note(effect, member, own, view)
    return True


def _stopped_as_it_is(member: Member, effect: Effect) -> bool:
    effect.strikes()
    try:
        effect.proof.append(member.child.pause())
    except WaitTimeout as error:  # it had just ended, as one that was fenced is right to do
        effect.lacking[GOAL] = str(error)
        return False
    return True


def _note(effect: Effect, member: Member, own: str, view: TransactionView, more: str = "") -> None:
    effect.strikes()
    topics = sorted({topic for topic, _ in view.places})
    effect.proof.append(
        f"{member.journal} was stopped while {own} was {view.state} with {', '.join(topics)}{more}"
    )
    effect.details["transactional_id"] = own


def _id_of(context: FaultContext, member: Member) -> str | None:
    return stage_of(context, member).transactional_ids.get(member.worker or "") or own_id(context, member)


def at_work(context: FaultContext, target: Target) -> Member:
    """An instance, once its stage is ready and writes; of one that ends meanwhile, who took its place.

    It waits for no longer than a fault may be late, or the stage silent: who strikes a program that only starts strikes
    little. One that does not come to that is struck as it is.
    """
    stage = next(one for one in context.stages if one.name == target.name.partition("/")[0])
    timeout_s = AT_WORK_TIMEOUT_S if stage.group else max(AT_WORK_TIMEOUT_S, stage.idle_s)
    first: list[int] = []

    def works() -> bool:
        if not context.processes.workers(stage.name) or context.processes.starting(stage.name):
            return False
        written = sum(high for _, _, high in context.cluster.last_stable(stage.writes).values())
        first.append(written)
        return written > first[0]

    with suppress(WaitTimeout):
        wait_for(works, f"{stage.name} to write", timeout_s, every_s=0.1)
    return worker_in_role(context.processes, target)


def await_followers(context: FaultContext, injection: Injection) -> None:
    """Where markers were held back: wait until the coordinator follows the others again. Raises `WaitTimeout`."""
    if injection.state == PREPARE_COMMIT:
        context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
