"""Instances of a custom pipeline: draw one, and stop it in the state at which a fault is aimed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random

from harness.cluster import Ability, TransactionView
from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.network import Cut
from harness.runner.member import RunProcess
from harness.runner.nemesis import (
    AtState,
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    NotForThisPipeline,
    PlannedFault,
    Resource,
    Target,
)
from harness.runner.occupied import all_workers, brokers_and_a_worker
from nemeses.aiming.in_transaction import GOAL, stage_of
from nemeses.aiming.markers import describe_transaction
from nemeses.aiming.observed_ids import IDENTIFY_TIMEOUT_S, find_transactional_id
from nemeses.aiming.targets import worker_in_role
from nemeses.effects.stopped import OFFSETS_ADDED, ONGOING, PREPARE_COMMIT, PREPARES_S, stop_in, stop_prepared

STATES = frozenset({ONGOING, OFFSETS_ADDED, PREPARE_COMMIT})
"""The states of a transaction in which an instance can be stopped: it is open; it is open and has the offsets; or it is
decided, and some markers are not written yet."""
MORE_IN = {PREPARE_COMMIT: AtState(PREPARES_S, frozenset({Ability.PEER_LINKS, Cut}), least_brokers=2)}
"""For prepare-commit, the links between brokers are cut to hold back markers."""
PREFERS_OPEN = 2 / 3
"""The share of faults without an aim that wait for an open transaction. Most programs have one for a small part of the
time only. Other faults do not wait, because a program may fail between two transactions.
"""
SOON_S = 5.0
"""How long such a fault waits for an open transaction."""
IN_SYNC_TIMEOUT_S = 90.0
AT_WORK_TIMEOUT_S = 20.0
MOST_SUCCESSORS = 3
"""How often a fault takes the replacement of its target, because the target ended by itself before the injection."""


def occupied_resources(planned: PlannedFault) -> frozenset[Resource]:
    """Return the resources of a fault on an instance. If markers are held back, the links between brokers are too."""
    prepared = planned.state == PREPARE_COMMIT
    return brokers_and_a_worker(planned) if prepared else all_workers(planned)


def any_instance(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw an instance of a stage without steps. Raises `NotForThisPipeline`."""
    stages = [
        stage for stage, names in sorted(targets.workers.items()) if names and not targets.steps.get(stage)
    ]
    if targets.stage is not None:
        stages = [stage for stage in stages if stage == targets.stage]
    if not stages:
        raise NotForThisPipeline("a custom pipeline (--pipeline)")
    stage = rng.choice(stages)
    target = Target("worker", f"{stage}/{rng.choice(targets.workers[stage])}")
    transactional = bool(targets.transactional_ids.get(stage)) or stage in targets.stages_with_unknown_ids
    prefers = transactional and rng.random() < PREFERS_OPEN
    return DrawnFault(target, {"prefers": ONGOING} if prefers else {})


def new_effect(member: RunProcess) -> InjectedFault:
    """Return the effect of a fault whose target is an instance."""
    effect = InjectedFault(target="")
    _aim_at(effect, member)
    return effect


def _aim_at(effect: InjectedFault, member: RunProcess) -> None:
    effect.target = effect.short_target = f"instance {member.journal}"
    effect.details["worker"] = member.journal


@contextmanager
def stop_instance(
    context: FaultContext,
    planned: PlannedFault,
    member: RunProcess,
    effect: InjectedFault,
    before: Callable[[RunProcess], None] = lambda member: None,
) -> Iterator[tuple[RunProcess, bool]]:
    """Stop the instance. If the fault is aimed at a state of its transaction, stop it in that state.

    If the instance ends by itself before it is stopped, its replacement is the target, at most `MOST_SUCCESSORS` times.

    Args:
        before: Called with each target before the target is stopped.

    Yields:
        The last target, and whether it is stopped. If it is not, it runs, and the effect says why. Its transaction
        stays in the state until the end of the `with`.
    """
    with ExitStack() as cut:
        for left in range(MOST_SUCCESSORS, -1, -1):
            _aim_at(effect, member)
            before(member)
            stopped = _stop_target(context, planned, member, effect, cut)
            successor = None if stopped or not left else _successor(context, member)
            if successor is None:
                break
            effect.proof.append(
                f"{member.journal} ended by itself before the injection: {member.last_output()}"
            )
            effect.unmet_goals.pop(GOAL, None)
            member = successor
        yield member, stopped


def _successor(context: FaultContext, member: RunProcess) -> RunProcess | None:
    """Wait until the replacement of an instance that ended by itself is ready. None: it did not end, or has none."""
    if member.alive or member.stage is None:
        return None
    stage = member.stage

    def find_replacement() -> RunProcess | None:
        living = (other for other in context.processes.workers(stage) if other.worker == member.worker)
        return None if context.processes.is_starting(stage) else next(living, None)

    try:
        awaited = f"an instance to replace {member.journal}"
        return wait_for(find_replacement, awaited, AT_WORK_TIMEOUT_S, every_s=0.1)
    except WaitTimeout:
        return None


def _stop_target(
    context: FaultContext, planned: PlannedFault, member: RunProcess, effect: InjectedFault, cut: ExitStack
) -> bool:
    state = planned.state
    if state is None:
        return _stop_in_open(context, planned, member, effect) or _stop_now(member, effect)
    transactional_id = _id_of(context, member)
    if transactional_id is None:
        effect.unmet_goals[GOAL] = (
            f"{member.journal} sent no request with a transactional id for {IDENTIFY_TIMEOUT_S:g} s: name the id in "
            "its [[stage]], or set transactions = false there if it has none"
        )
        return False
    try:
        if state == PREPARE_COMMIT:
            view = stop_prepared(context, member, transactional_id, cut)
        else:
            view = stop_in(context, member, transactional_id, state)
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
        return False
    more = (
        f": {describe_transaction(context.cluster.txn_coordinator(transactional_id), transactional_id, view)}"
        if state == PREPARE_COMMIT
        else ""
    )
    _note(effect, member, transactional_id, view, more)
    effect.details["state"] = state
    return True


def _stop_in_open(
    context: FaultContext, planned: PlannedFault, member: RunProcess, effect: InjectedFault
) -> bool:
    """Stop the instance in an open transaction if the fault prefers that and one opens soon. Return whether it did."""
    if planned.prefers is None or (transactional_id := _id_of(context, member)) is None:
        return False
    try:
        view = stop_in(context, member, transactional_id, planned.prefers, SOON_S)
    except WaitTimeout:
        return False
    _note(effect, member, transactional_id, view)
    return True


def _stop_now(member: RunProcess, effect: InjectedFault) -> bool:
    effect.mark_injected()
    try:
        effect.proof.append(member.child.pause())
    except WaitTimeout as error:  # it had just ended, as a fenced instance should
        effect.unmet_goals[GOAL] = str(error)
        return False
    return True


def _note(
    effect: InjectedFault, member: RunProcess, transactional_id: str, view: TransactionView, more: str = ""
) -> None:
    effect.mark_injected()
    topics = sorted({topic for topic, _ in view.partitions})
    effect.proof.append(
        f"{member.journal} was stopped while {transactional_id} was {view.state} with {', '.join(topics)}{more}"
    )
    effect.details["transactional_id"] = transactional_id


def _id_of(context: FaultContext, member: RunProcess) -> str | None:
    return stage_of(context, member).transactional_ids.get(member.worker or "") or find_transactional_id(
        context, member
    )


def await_working(context: FaultContext, target: Target) -> tuple[RunProcess, str]:
    """Wait until the stage of an instance is ready and writes. A fault on a program that only starts tests little.

    The wait is at most as long as a fault may be late, or as long as the stage may write nothing.

    Returns:
        The instance, or its replacement if it ended meanwhile; and why it was not seen at work, empty if it was.
    """
    stage = next(stage for stage in context.stages if stage.name == target.name.partition("/")[0])
    timeout_s = AT_WORK_TIMEOUT_S if stage.group else max(AT_WORK_TIMEOUT_S, stage.idle_s)
    first: list[int] = []
    seen = ""

    def works() -> bool:
        nonlocal seen
        if not context.processes.workers(stage.name):
            seen = "none of its instances is alive"
            return False
        if context.processes.is_starting(stage.name):
            seen = "an instance of it is not ready yet"
            return False
        written = sum(high for _, _, high in context.cluster.log_offsets(stage.writes).values())
        first.append(written)
        seen = f"its output topics end at {written} records, as at the first look"
        return written > first[0]

    unready = ""
    try:
        wait_for(works, f"{stage.name} to write", timeout_s, every_s=0.1, last_seen=lambda: seen)
    except WaitTimeout as error:
        unready = str(error)
    return worker_in_role(context.processes, target), unready


def note_unready(effect: InjectedFault, unready: str) -> None:
    """Add to the effect that its target was not seen at work. Does nothing if `unready` is empty."""
    if unready:
        effect.proof.append(f"it was not seen at work before: {unready}")
        effect.unmet_goals.update(
            {
                goal: f"{why}; it was not seen at work before: {unready}"
                for goal, why in effect.unmet_goals.items()
            }
        )


def await_followers(context: FaultContext, planned: PlannedFault) -> None:
    """If markers were held back, wait until the coordinator's replicas are in sync again. Raises `WaitTimeout`."""
    if planned.state == PREPARE_COMMIT:
        context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
