"""Instances of a custom pipeline: draw one, and stop it in the state at which a fault is aimed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random

from harness.cluster import Ability, TransactionView
from harness.common.errors import FaultFailed, WaitTimeout
from harness.network import Cut
from harness.runner.nemesis import (
    DrawnFault,
    ExtraNeeds,
    FaultContext,
    FaultTargets,
    InjectedFault,
    NotForThisPipeline,
    PlannedFault,
    Resource,
    Target,
    TargetMissing,
)
from harness.runner.occupied import uses_brokers_and_workers, uses_workers
from harness.runner.run_process import RunProcess
from nemeses.aiming.in_transaction import GOAL, stage_of
from nemeses.aiming.markers import describe_transaction
from nemeses.aiming.observed_ids import IDENTIFY_TIMEOUT_S, find_transactional_id, observe_client
from nemeses.aiming.targets import choose, worker_in_role
from nemeses.effects.brokers import IN_SYNC_TIMEOUT_S
from nemeses.effects.stopped import (
    BEFORE_OFFSETS,
    OFFSETS_ADDED,
    ONGOING,
    PREPARE_COMMIT,
    PREPARES_S,
    stop_in,
    stop_prepared,
)

STATES = frozenset({ONGOING, BEFORE_OFFSETS, OFFSETS_ADDED, PREPARE_COMMIT})
"""The states of a transaction in which an instance can be stopped. The transaction is open; or it is open, and the
instance has not added its offsets yet, or has added them; or it is decided, and some markers are not written yet.
"""
EXTRA_NEEDS = {PREPARE_COMMIT: ExtraNeeds(PREPARES_S, frozenset({Ability.PEER_LINKS, Cut}), least_brokers=2)}
"""By state: what a fault needs in addition. For prepare-commit, links between brokers are cut to hold back markers."""
OPEN_SHARE = 2 / 3
"""The share of faults without a chosen state that wait for an open transaction. Without the wait they would rarely meet
one, because most programs have an open transaction only for a small part of the time. The other faults do not wait,
because a program may also fail between two transactions.
"""
OPEN_TIMEOUT_S = 5.0
"""How long such a fault waits for an open transaction."""
MOST_SUCCESSORS = 3
"""How often a fault takes the replacement as its target, if the target ends by itself before the injection."""


def occupied_resources(planned: PlannedFault) -> frozenset[Resource]:
    """Return the resources of a fault on an instance. If markers are held back, it also occupies the brokers."""
    holds_markers_back = planned.state == PREPARE_COMMIT
    return uses_brokers_and_workers(planned) if holds_markers_back else uses_workers(planned)


def any_instance(
    rng: Random, targets: FaultTargets, *, least: int = 1, prefers: str = ONGOING, share: float = OPEN_SHARE
) -> DrawnFault:
    """Draw an instance of a stage that `any_stage` draws. Raises `NoTarget`.

    Args:
        rng: The source of randomness.
        targets: All possible targets.
        least: The number of instances that the stage must have.
        prefers: The state of its transaction for which the fault waits a short time.
        share: The share of the faults that wait for it, if the stage has transactions.
    """
    stage = any_stage(rng, targets, least)
    target = Target("worker", f"{stage}/{rng.choice(targets.workers[stage])}")
    transactional = bool(targets.transactional_ids.get(stage)) or stage in targets.stages_with_unknown_ids
    return DrawnFault(target, {"prefers": prefers} if transactional and rng.random() < share else {})


def any_stage(rng: Random, targets: FaultTargets, least: int = 1) -> str:
    """Draw a stage of a custom pipeline.

    Args:
        rng: The source of randomness.
        targets: All possible targets.
        least: The number of instances that the stage must have.

    Raises:
        NotForThisPipeline: No stage belongs to a custom pipeline.
        NoTarget: No stage has enough instances.
    """
    stages = [
        stage
        for stage, names in sorted(targets.workers.items())
        if names and not targets.steps.get(stage) and targets.stage in (None, stage)
    ]
    if not stages:
        raise NotForThisPipeline("a custom pipeline (--pipeline)")
    return choose(
        rng,
        [stage for stage in stages if len(targets.workers[stage]) >= least],
        f"a stage with {least} instances or more, so that others take over (`instances` in the file)",
    )


def in_groups(targets: FaultTargets) -> FaultTargets:
    """Return only the targets of stages with a consumer group. Raises `NotForThisPipeline` if there is none."""
    workers = {stage: names for stage, names in targets.workers.items() if stage in targets.groups}
    if not workers:
        raise NotForThisPipeline("a custom pipeline (--pipeline) with a group")
    return replace(targets, workers=workers)


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

    If the instance ends by itself before it is stopped, its replacement becomes the target. This happens at most
    `MOST_SUCCESSORS` times.

    Args:
        before: Called with each target before the target is stopped.

    Yields:
        The last target, and whether it is stopped. If it is not stopped, it runs, and the effect says why. If it is
        stopped in a state, its transaction stays in this state until the end of the `with`.
    """
    with ExitStack() as cut:
        for successors_left in range(MOST_SUCCESSORS, -1, -1):
            _aim_at(effect, member)
            before(member)
            stopped = _stop_target(context, planned, member, effect, cut)
            successor = None if stopped or not successors_left else _successor(context, member)
            if successor is None:
                break
            effect.proof.append(
                f"{member.journal} ended by itself before the injection: {member.last_output()}"
            )
            effect.unmet_goals.pop(GOAL, None)
            member = successor
        yield member, stopped


def _successor(context: FaultContext, member: RunProcess) -> RunProcess | None:
    """Wait until the replacement of an instance that ended by itself is ready.

    None if the instance did not end, or if no replacement was ready in time.
    """
    if member.alive or member.stage is None:
        return None
    stage = member.stage

    def find_replacement() -> RunProcess | None:
        living = (other for other in context.processes.workers(stage) if other.worker == member.worker)
        return None if context.processes.is_starting(stage) else next(living, None)

    try:
        awaited = f"an instance to replace {member.journal}"
        timeout_s = stage_of(context, member).working_timeout_s
        return context.wait_for(find_replacement, awaited, timeout_s, every_s=0.1)
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
        why = (
            f"the transactional id of {member.journal} is not known, because no protocol proxy is on its links"
            if observe_client(context, member) is None
            else f"{member.journal} sent no request with a transactional id for "
            f"{context.scaled(IDENTIFY_TIMEOUT_S):g} s"
        )
        effect.unmet_goals[GOAL] = (
            f"{why}: name the id in its [[stage]], or set transactions = false there if it has none"
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
    markers = (
        f": {describe_transaction(context.cluster.txn_coordinator(transactional_id), transactional_id, view)}"
        if state == PREPARE_COMMIT
        else ""
    )
    _note(effect, member, transactional_id, view, markers)
    effect.details["state"] = state
    return True


def _stop_in_open(
    context: FaultContext, planned: PlannedFault, member: RunProcess, effect: InjectedFault
) -> bool:
    """Stop the instance in an open transaction, if the fault prefers that. Return false if none opens soon."""
    if planned.preferred_state is None or (transactional_id := _id_of(context, member)) is None:
        return False
    try:
        view = stop_in(context, member, transactional_id, planned.preferred_state, OPEN_TIMEOUT_S)
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
    effect: InjectedFault, member: RunProcess, transactional_id: str, view: TransactionView, markers: str = ""
) -> None:
    effect.mark_injected()
    topics = sorted({topic for topic, _ in view.partitions})
    effect.proof.append(
        f"{member.journal} was stopped while {transactional_id} was {view.state} with {', '.join(topics)}{markers}"
    )
    effect.details["transactional_id"] = transactional_id


def _id_of(context: FaultContext, member: RunProcess) -> str | None:
    return stage_of(context, member).transactional_ids.get(member.worker or "") or find_transactional_id(
        context, member
    )


def await_working(context: FaultContext, target: Target) -> tuple[RunProcess, str]:
    """Wait until the stage of an instance is ready and writes, because a fault on a starting program tests little.

    Wait at most for `StageSpec.working_timeout_s`.

    Returns:
        The instance, or its replacement if it ended in the meantime. And the reason why the stage was not seen to
        write; it is empty if the stage was seen to write.

    Raises:
        TargetMissing: No instance of the stage was running.
    """
    stage = next(stage for stage in context.stages if stage.name == target.name.partition("/")[0])
    counts: list[int] = []
    last_seen = ""
    member: RunProcess | None = None  # a job may end at any time

    def works() -> bool:
        nonlocal last_seen, member
        try:
            member = worker_in_role(context.processes, target)
        except FaultFailed:
            last_seen = "none of its instances is alive"
            return False
        if context.processes.is_starting(stage.name):
            last_seen = "an instance of it is not ready yet"
            return False
        written = sum(high for _, _, high in context.cluster.log_offsets(stage.writes).values())
        counts.append(written)
        last_seen = f"its output topics end at {written} records, as at the first look"
        return written > counts[0]

    unready = ""
    try:
        awaited = f"{stage.name} to write"
        context.wait_for(works, awaited, stage.working_timeout_s, every_s=0.1, last_seen=lambda: last_seen)
    except WaitTimeout as error:
        unready = str(error)
    if member is None:
        raise TargetMissing(f"no instance of {stage.name} was running: {unready}")
    return member, unready


def note_unready(effect: InjectedFault, unready: str) -> None:
    """Add to the effect that the stage was not seen to write before the fault. Do nothing if `unready` is empty."""
    if unready:
        effect.proof.append(f"the stage was not seen to write before the fault: {unready}")
        effect.unmet_goals.update(
            {
                goal: f"{why}; the stage was not seen to write before the fault: {unready}"
                for goal, why in effect.unmet_goals.items()
            }
        )


def await_followers(context: FaultContext, planned: PlannedFault) -> None:
    """If markers were held back, wait until the coordinator's replicas are in sync again. Raises `WaitTimeout`."""
    if planned.state == PREPARE_COMMIT:
        context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
