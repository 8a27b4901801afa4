"""pause-worker: a worker is stopped inside a transaction until others have gone on in its place.

Then it goes on, and believes that nothing has happened: a zombie. What it does next must have no
effect.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.model.vocabulary import OffsetTracking, WorkerStep
from harness.processes.control_line import Claims, Command, Counts
from harness.record.naming import split_partition
from harness.runner.member import RunProcess
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
)
from harness.runner.occupied import all_workers
from nemeses.aiming.targets import any_worker, worker_in_role

STEP_TIMEOUT_S = 45.0
TAKE_OVER_TIMEOUT_S = 60.0
COME_BACK_TIMEOUT_S = 60.0
GOAL = "zombie"
MORE_TRIES = 3
"""At later transactions, where its group has gone past what the worker has in hand at first."""


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Any worker, at a step at which it has begun what others will then do in its place."""
    return any_worker(rng, targets, targets.zombie_steps, "a step at which a worker has inputs in hand")


@contextmanager
def pause_worker(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """It acted if others had committed what it held, and it then came back and went on with its transaction."""
    processes = context.processes
    member = worker_in_role(processes, planned.target)
    step = WorkerStep(planned.step or WorkerStep.AFTER_SEND)
    effect = InjectedFault(
        target=f"worker {member.journal} at {step.value}", short_target=f"worker {member.journal}"
    )
    effect.details |= {"worker": member.journal, "step": step.value}
    try:
        # Only in a transaction that is to commit: a zombie that would abort anyway proves nothing.
        claims = processes.wait_at_step(member, step, STEP_TIMEOUT_S, asked="commit")
        held = _held(context, member, claims)
        for _ in range(MORE_TRIES if not held else 0):  # others have gone on without it before it was paused
            claims = processes.wait_at_step(member, step, STEP_TIMEOUT_S, asked="commit", onward=True)
            held = _held(context, member, claims)
            if held:
                break
    except WaitTimeout as error:  # a worker that has nothing to do comes to no step: nothing was struck
        effect.unmet_goals[GOAL] = str(error)
        yield effect
        return
    before = member.status.counts
    begun_s = time.monotonic()
    effect.mark_injected()
    stopped = member.child.pause()
    try:
        replacement = processes.replace(member)
        processes.await_ready([replacement])
        if member.group is not None:
            taken = _await_taken(context, member.group, member, held)
        elif any(
            stage.name == member.stage and stage.offset_tracking is OffsetTracking.EACH
            for stage in context.stages
        ):
            taken = _await_done(context, member, claims)
        else:
            taken = _await_going_on(replacement)
        waited_s = time.monotonic() - begun_s
        yield effect
    finally:
        member.send(Command(replaced=True, go=True))
        member.child.resume()
    came_back = _came_back(member, before)
    if not taken:
        effect.unmet_goals[GOAL] = f"{member.journal} was paused, but nobody went on in its place"
    elif not came_back:
        effect.unmet_goals[GOAL] = (
            f"{member.journal} was paused and replaced, but it did not go on with its transaction"
        )
    else:
        effect.add_proof(f"it stood at {step.value}; {stopped}; {taken} after {waited_s:.1f} s")
        effect.add_proof(came_back)


def _await_going_on(replacement: RunProcess) -> str:
    """Wait until who took the place has committed, where no group tells who has what; empty: it never did."""

    def gone_on() -> str | None:
        if replacement.status.counts.committed:
            return f"{replacement.journal} had committed in its place"
        return None

    try:
        return wait_for(gone_on, f"{replacement.journal} to commit", TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""


def _held(context: FaultContext, member: RunProcess, claims: Claims) -> Claims:
    """Of what the worker has in hand that past which its group has not gone: only there can others be seen to go on."""
    if member.group is None:
        return claims
    committed = context.cluster.committed_offsets(member.group)
    return {key: claim for key, claim in claims.items() if committed.get(split_partition(key), -1) < claim[1]}


def _await_taken(context: FaultContext, group: str, member: RunProcess, claims: Claims) -> str:
    """Wait until the group has committed past what the zombie holds; empty: it never did."""

    def taken() -> str | None:
        committed = context.cluster.committed_offsets(group)
        for key, (_, following) in claims.items():
            if committed.get(split_partition(key), -1) >= following:
                return f"others had committed {key} up to {committed[split_partition(key)]}"
        return None

    try:
        return wait_for(taken, f"{group} to go on without {member.journal}", TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""


def _await_done(context: FaultContext, member: RunProcess, claims: Claims) -> str:
    """Wait until none of the rows that the zombie holds is left to be done; empty: some were."""

    def done() -> str | None:
        for key, (first, following) in claims.items():
            if context.backlog(split_partition(key)[0], (first, following)) == 0:
                return f"others had done {key} from {first} to {following - 1}"
        return None

    try:
        awaited = f"{member.stage} to go on without {member.journal}"
        return wait_for(done, awaited, TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""


def _came_back(member: RunProcess, before: Counts) -> str:
    """What the zombie met when it went on; empty: it never ended the transaction that it was in.

    Each end of a transaction is counted, so a zombie that dies at once, before it has asked a broker for anything,
    has counted nothing.
    """

    def ended() -> str | None:
        counts = member.status.counts
        if counts.fenced > before.fenced:
            return f"{member.journal} came back and was fenced"
        if any(
            getattr(counts, name) > getattr(before, name)
            for name in ("committed", "failed", "aborted", "info")
        ):
            return f"{member.journal} came back and went on with what it had in hand, having met no fence"
        return "" if member.alive else "nothing"

    try:
        words = wait_for(
            ended,
            f"{member.journal} to come back",
            COME_BACK_TIMEOUT_S,
            last_seen=lambda: member.status,
        )
    except WaitTimeout:
        return ""
    return "" if words == "nothing" else words


NEMESIS = Nemesis(
    name="pause-worker",
    summary="SIGSTOP a worker inside a transaction, SIGCONT once others have its partitions: a zombie",
    past_tense="was paused and replaced",
    occupies=all_workers,
    hold_s=1.0,
    recovery_s=14.0,
    keeps_endpoint=True,
    draw=draw,
    aimable=True,
    inject=pause_worker,
)
