"""pause-worker: pause a worker inside a transaction until others have processed its inputs, and resume it: a zombie.

The worker then continues its transaction. Its next requests must have no effect.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.common.errors import WaitTimeout
from harness.model.vocabulary import OffsetTracking, WorkerStep
from harness.processes.control_line import Claims, Command, Counts
from harness.record.naming import split_partition
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
)
from harness.runner.occupied import uses_workers
from harness.runner.run_process import RunProcess
from nemeses.aiming.targets import any_worker, worker_in_role

STEP_TIMEOUT_S = 45.0
TAKE_OVER_TIMEOUT_S = 60.0
COME_BACK_TIMEOUT_S = 60.0
GOAL = "zombie"
PROCESS_ENDED = "the process ended"
MORE_TRIES = 3
"""How many later transactions of the worker to try if others have already committed its inputs."""


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a worker, and a step at which pausing it leaves a zombie."""
    return any_worker(rng, targets, targets.zombie_steps, "a step at which a worker has polled inputs")


@contextmanager
def pause_worker(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Pause the worker, replace it, and resume it.

    The fault acted if others committed its inputs, and if the worker then continued its transaction.
    """
    processes = context.processes
    member = worker_in_role(processes, planned.target)
    step = WorkerStep(planned.step or WorkerStep.AFTER_SEND)
    effect = InjectedFault(
        target=f"worker {member.journal} at {step.value}", short_target=f"worker {member.journal}"
    )
    effect.details |= {"worker": member.journal, "step": step.value}
    try:
        # Wait for a transaction that is to commit. A zombie that would abort anyway proves nothing.
        timeout_s = context.scaled(STEP_TIMEOUT_S)
        claims = processes.hold_at_step(member, step, timeout_s, intended_end="commit")
        uncommitted = _uncommitted(context, member, claims)
        for _ in range(MORE_TRIES):
            if uncommitted:
                break
            claims = processes.hold_at_step(member, step, timeout_s, intended_end="commit", resume=True)
            uncommitted = _uncommitted(context, member, claims)
    except WaitTimeout as error:  # a worker without inputs reaches no step, so the fault is not injected
        effect.unmet_goals[GOAL] = str(error)
        yield effect
        return
    before = member.status.counts
    begun_s = time.monotonic()
    effect.mark_injected()
    pause_proof = member.child.pause()
    try:
        replacement = processes.replace(member)
        processes.await_ready([replacement])
        if member.group is not None:
            progress = _await_commit(context, member.group, member, uncommitted)
        elif any(
            stage.name == member.stage and stage.offset_tracking is OffsetTracking.EACH
            for stage in context.stages
        ):
            progress = _await_processed(context, member, claims)
        else:
            progress = _await_first_commit(context, replacement)
        waited_s = time.monotonic() - begun_s
        yield effect
    finally:
        member.send(Command(replaced=True, go=True))
        member.child.resume()
        effect.mark_healed()
    came_back = _await_end(context, member, before)
    if not progress:
        effect.unmet_goals[GOAL] = f"{member.journal} was paused, but no other worker committed its inputs"
    elif not came_back:
        effect.unmet_goals[GOAL] = (
            f"{member.journal} was paused and replaced, but it did not continue its transaction"
        )
    else:
        effect.add_proof(f"it waited at {step.value}; {pause_proof}; {progress} after {waited_s:.1f} s")
        effect.add_proof(came_back)


def _await_first_commit(context: FaultContext, replacement: RunProcess) -> str:
    """Wait until the replacement has committed. Use it for a stage without a group.

    Return a sentence that says so, or an empty string if it did not commit in time.
    """

    def committed() -> str | None:
        if replacement.status.counts.committed:
            return f"{replacement.journal} had committed in its place"
        return None

    try:
        return context.wait_for(
            committed, f"{replacement.journal} to commit", TAKE_OVER_TIMEOUT_S, every_s=0.2
        )
    except WaitTimeout:
        return ""


def _uncommitted(context: FaultContext, member: RunProcess, claims: Claims) -> Claims:
    """Return the claims of the worker that its group has not committed.

    Only for these claims can the fault see that another worker commits them.
    """
    if member.group is None:
        return claims
    committed = context.cluster.committed_offsets(member.group)
    return {key: claim for key, claim in claims.items() if committed.get(split_partition(key), -1) < claim[1]}


def _await_commit(context: FaultContext, group: str, member: RunProcess, claims: Claims) -> str:
    """Wait until the group has committed one of the claims of the zombie.

    Return a sentence that says so, or an empty string if it did not commit one in time.
    """

    def committed_claim() -> str | None:
        committed = context.cluster.committed_offsets(group)
        for key, (_, following) in claims.items():
            if committed.get(split_partition(key), -1) >= following:
                return f"others had committed {key} up to {committed[split_partition(key)]}"
        return None

    try:
        return context.wait_for(
            committed_claim, f"{group} to go on without {member.journal}", TAKE_OVER_TIMEOUT_S, every_s=0.2
        )
    except WaitTimeout:
        return ""


def _await_processed(context: FaultContext, member: RunProcess, claims: Claims) -> str:
    """Wait until others have processed all rows of one claim of the zombie.

    Return a sentence that says so, or an empty string if they did not do it in time.
    """

    def processed() -> str | None:
        for key, (first, following) in claims.items():
            if context.backlog(split_partition(key)[0], (first, following)) == 0:
                return f"others had processed {key} from {first} to {following - 1}"
        return None

    try:
        awaited = f"{member.stage} to go on without {member.journal}"
        return context.wait_for(processed, awaited, TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""


def _await_end(context: FaultContext, member: RunProcess, before: Counts) -> str:
    """Wait until the zombie ends its transaction, and return a sentence that says how.

    The end shows in the counts of the worker: each end of a transaction adds to one of them. Return an empty string if
    no count grows in time, or if the zombie ends before one grows.
    """

    def ended() -> str | None:
        counts = member.status.counts
        if counts.fenced > before.fenced:
            return f"{member.journal} came back and was fenced"
        if any(
            getattr(counts, name) > getattr(before, name)
            for name in ("committed", "failed", "aborted", "info")
        ):
            return f"{member.journal} came back and continued its transaction without being fenced"
        return None if member.alive else PROCESS_ENDED

    try:
        ending = context.wait_for(
            ended,
            f"{member.journal} to come back",
            COME_BACK_TIMEOUT_S,
            last_seen=lambda: member.status,
        )
    except WaitTimeout:
        return ""
    return "" if ending == PROCESS_ENDED else ending


NEMESIS = Nemesis(
    name="pause-worker",
    summary="SIGSTOP a worker inside a transaction, SIGCONT after others have its partitions: a zombie",
    past_tense="was paused and replaced",
    proves="others committed its inputs, and the worker then continued its transaction",
    occupies=uses_workers,
    hold_s=1.0,
    recovery_s=14.0,
    keeps_endpoint=True,
    draw=draw,
    aimable=True,
    inject=pause_worker,
)
