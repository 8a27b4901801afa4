"""pause-worker: pause a worker inside a transaction until others have processed its inputs, and resume it: a zombie.

The worker then goes on as if nothing had happened. What it does next must have no effect.
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
"""How many later transactions to try if the group is already past the inputs of the worker."""


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a worker, and a step at which pausing it leaves a zombie."""
    return any_worker(rng, targets, targets.zombie_steps, "a step at which a worker has polled inputs")


@contextmanager
def pause_worker(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Pause the worker, replace it, and resume it.

    The fault acted if others committed its inputs, and if the worker then went on with its transaction.
    """
    processes = context.processes
    member = worker_in_role(processes, planned.target)
    step = WorkerStep(planned.step or WorkerStep.AFTER_SEND)
    effect = InjectedFault(
        target=f"worker {member.journal} at {step.value}", short_target=f"worker {member.journal}"
    )
    effect.details |= {"worker": member.journal, "step": step.value}
    try:
        # The transaction must be one that is to commit. A zombie that would abort anyway proves nothing.
        claims = processes.wait_at_step(member, step, STEP_TIMEOUT_S, txn_end="commit")
        held = _held(context, member, claims)
        for _ in range(
            MORE_TRIES if not held else 0
        ):  # others went on without the worker before it was paused
            claims = processes.wait_at_step(member, step, STEP_TIMEOUT_S, txn_end="commit", resume=True)
            held = _held(context, member, claims)
            if held:
                break
    except WaitTimeout as error:  # a worker without inputs reaches no step, so the fault is not injected
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
            progress = _await_commit(context, member.group, member, held)
        elif any(
            stage.name == member.stage and stage.offset_tracking is OffsetTracking.EACH
            for stage in context.stages
        ):
            progress = _await_processed(context, member, claims)
        else:
            progress = _await_first_commit(replacement)
        waited_s = time.monotonic() - begun_s
        yield effect
    finally:
        member.send(Command(replaced=True, go=True))
        member.child.resume()
    came_back = _came_back(member, before)
    if not progress:
        effect.unmet_goals[GOAL] = f"{member.journal} was paused, but no other worker went on in its place"
    elif not came_back:
        effect.unmet_goals[GOAL] = (
            f"{member.journal} was paused and replaced, but it did not go on with its transaction"
        )
    else:
        effect.add_proof(f"it waited at {step.value}; {stopped}; {progress} after {waited_s:.1f} s")
        effect.add_proof(came_back)


def _await_first_commit(replacement: RunProcess) -> str:
    """Wait until the replacement has committed, for a stage without a group. Empty: it did not in time."""

    def committed() -> str | None:
        if replacement.status.counts.committed:
            return f"{replacement.journal} had committed in its place"
        return None

    try:
        return wait_for(committed, f"{replacement.journal} to commit", TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""


def _held(context: FaultContext, member: RunProcess, claims: Claims) -> Claims:
    """Return the claims of the worker that its group has not committed. Only on these is a commit of others visible."""
    if member.group is None:
        return claims
    committed = context.cluster.committed_offsets(member.group)
    return {key: claim for key, claim in claims.items() if committed.get(split_partition(key), -1) < claim[1]}


def _await_commit(context: FaultContext, group: str, member: RunProcess, claims: Claims) -> str:
    """Wait until the group has committed one of the claims of the zombie. Empty: it did not in time."""

    def committed_claim() -> str | None:
        committed = context.cluster.committed_offsets(group)
        for key, (_, following) in claims.items():
            if committed.get(split_partition(key), -1) >= following:
                return f"others had committed {key} up to {committed[split_partition(key)]}"
        return None

    try:
        return wait_for(
            committed_claim, f"{group} to go on without {member.journal}", TAKE_OVER_TIMEOUT_S, every_s=0.2
        )
    except WaitTimeout:
        return ""


def _await_processed(context: FaultContext, member: RunProcess, claims: Claims) -> str:
    """Wait until others have processed all rows of one claim of the zombie. Empty: they did not in time."""

    def processed() -> str | None:
        for key, (first, following) in claims.items():
            if context.backlog(split_partition(key)[0], (first, following)) == 0:
                return f"others had processed {key} from {first} to {following - 1}"
        return None

    try:
        awaited = f"{member.stage} to go on without {member.journal}"
        return wait_for(processed, awaited, TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""


def _came_back(member: RunProcess, before: Counts) -> str:
    """Wait until the zombie ends its transaction, and return how. Empty: it did not.

    A worker counts each end of a transaction. A zombie that dies before it sends a request has counted none.
    """

    def ended() -> str | None:
        counts = member.status.counts
        if counts.fenced > before.fenced:
            return f"{member.journal} came back and was fenced"
        if any(
            getattr(counts, name) > getattr(before, name)
            for name in ("committed", "failed", "aborted", "info")
        ):
            return f"{member.journal} came back and went on with its transaction without being fenced"
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
    summary="SIGSTOP a worker inside a transaction, SIGCONT after others have its partitions: a zombie",
    past_tense="was paused and replaced",
    occupies=all_workers,
    hold_s=1.0,
    recovery_s=14.0,
    keeps_endpoint=True,
    draw=draw,
    aimable=True,
    inject=pause_worker,
)
