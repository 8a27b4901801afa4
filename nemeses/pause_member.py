"""Faults that pause a worker or an instance until others have taken over, and resume it: a row of `NEMESES` each.

The member is a zombie then: it continues with inputs that others have processed. Its requests must have no effect.

Without `-unreplaced` in the name of the fault, the member is replaced by one with the same transactional id, which
fences it. With it, nobody takes its transactional id, so its transaction may still be open when it continues. Only the
group can reject its offsets, because they are from an earlier generation (KIP-447).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random

from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
    uses_workers,
)
from nemeses.effects.instance_member import (
    EXTRA_NEEDS,
    STATES,
    InstanceMember,
    any_instance,
    in_groups,
    occupied_resources,
)
from nemeses.effects.instance_states import BEFORE_OFFSETS
from nemeses.effects.member import Member
from nemeses.effects.worker_member import WorkerMember, any_worker

WORKER_PROVES = "others committed its inputs, and the worker then continued its transaction"


@contextmanager
def pause_until_taken_over(
    kind: type[Member], context: FaultContext, planned: PlannedFault, *, replaced: bool
) -> Iterator[InjectedFault]:
    """Pause the member, let others take over, and resume it.

    The fault acted if others took over, and if the member then continued.
    """
    member = kind.find(context, planned)
    with member.held_with_inputs(replaced) as held:
        if held:
            member.pause()
    # What else held it, such as markers that are held back, is over, so that the others can go on.
    if not held:
        yield member.effect
        member.await_recovery()
        return
    try:
        progress = member.await_others(replaced)
        yield member.effect
        if progress:
            member.observe()
    finally:
        member.resume(replaced)
        member.effect.mark_healed()
    member.await_recovery()
    member.prove_return(progress)


def _zombie_worker(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a worker, and a step at which pausing it leaves a zombie."""
    return any_worker(rng, targets, targets.zombie_steps, "a step at which a worker has polled inputs")


def _zombie_worker_with_others(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a worker, and a step at which pausing it leaves a zombie. A stage with a group needs a second worker."""
    steps = {
        stage: steps if len(targets.workers[stage]) > 1 or stage not in targets.groups else ()
        for stage, steps in targets.zombie_steps.items()
    }
    requirement = "a step at which a worker has polled inputs that another worker of its stage can take over"
    return any_worker(rng, targets, steps, requirement)


def _instance_in_group(rng: Random, targets: FaultTargets) -> DrawnFault:
    return any_instance(rng, in_groups(targets))


def _instance_with_others(rng: Random, targets: FaultTargets) -> DrawnFault:
    return any_instance(rng, in_groups(targets), least=2, prefers=BEFORE_OFFSETS, share=1.0)


NEMESES: Sequence[Nemesis] = (
    Nemesis(
        name="pause-worker",
        summary="SIGSTOP a worker inside a transaction, SIGCONT after others have its partitions: a zombie",
        past_tense="was paused and replaced",
        proves=WORKER_PROVES,
        occupies=uses_workers,
        hold_s=1.0,
        recovery_s=14.0,
        keeps_endpoint=True,
        draw=_zombie_worker,
        aimable=True,
        inject=partial(pause_until_taken_over, WorkerMember, replaced=True),
    ),
    # If its stage has no group, it is paused until the coordinator has ended its transaction after the time-out.
    Nemesis(
        name="pause-worker-unreplaced",
        summary="SIGSTOP a worker in a transaction, SIGCONT after others process its inputs; no process replaces it",
        past_tense="was paused until others had processed its inputs",
        proves=WORKER_PROVES,
        occupies=uses_workers,
        hold_s=1.0,
        recovery_s=14.0,
        draw=_zombie_worker_with_others,
        aimable=True,
        by_default=False,
        inject=partial(pause_until_taken_over, WorkerMember, replaced=False),
        sources=("KIP-447",),
    ),
    # If the fault is aimed at prepare-commit, the instance is paused when its commit is accepted. So its transaction is
    # committed, and it gets the response when it is resumed.
    Nemesis(
        name="pause-instance",
        summary="SIGSTOP an instance of your own program, SIGCONT after its group has gone on without it: a zombie",
        past_tense="was paused and replaced",
        proves="the group went on without it, and it then ended, sent requests or rejoined",
        occupies=occupied_resources,
        hold_s=1.0,
        recovery_s=30.0,
        keeps_endpoint=True,
        draw=_instance_in_group,
        aimable=True,
        discovers_ids=True,
        discovers_members=True,
        states=STATES,
        extra_needs_by_state=EXTRA_NEEDS,
        inject=partial(pause_until_taken_over, InstanceMember, replaced=True),
    ),
    # A program that passes the offsets with the id of the group alone, or with an earlier version of TxnOffsetCommit,
    # processes these inputs twice.
    #
    # The fault waits for a transaction whose offsets are not added yet. If they are added, others cannot fetch the
    # committed offsets (UNSTABLE_OFFSET_COMMIT) until the coordinator ends the transaction after its time-out. Then the
    # instance is fenced.
    Nemesis(
        name="pause-instance-unreplaced",
        summary="SIGSTOP an instance of your program, SIGCONT after others process its inputs; no process replaces it",
        past_tense="was paused until others had processed its inputs",
        proves="the group went on without it and committed its inputs, and it then ended, sent requests or rejoined",
        occupies=occupied_resources,
        hold_s=1.0,
        recovery_s=30.0,
        draw=_instance_with_others,
        aimable=True,
        discovers_ids=True,
        discovers_members=True,
        states=STATES,
        extra_needs_by_state=EXTRA_NEEDS,
        inject=partial(pause_until_taken_over, InstanceMember, replaced=False),
        sources=("KIP-447",),
    ),
)
