"""Pause a worker inside a transaction until others have taken over from it, and resume it: a zombie.

The worker then continues its transaction. Its next requests must have no effect.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from harness.common.errors import WaitTimeout
from harness.model.vocabulary import OffsetTracking, WorkerStep
from harness.processes.control_line import Claims, Command, Counts
from harness.record.naming import split_partition
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from harness.runner.run_process import RunProcess
from nemeses.aiming.in_transaction import stage_of
from nemeses.aiming.targets import worker_in_role

STEP_TIMEOUT_S = 45.0
TAKE_OVER_TIMEOUT_S = 60.0
COME_BACK_TIMEOUT_S = 60.0
GOAL = "zombie"
PROVES = "others committed its inputs, and the worker then continued its transaction"
PROCESS_ENDED = "the process ended"
MORE_TRIES = 3
"""How many later transactions of the worker to try if others cannot take this one over."""


@dataclass(frozen=True)
class PausedWorker:
    """A worker that is paused at a step."""

    member: RunProcess
    claims: Claims  # its inputs
    uncommitted: Claims  # those that its group, if it has one, had not committed


TakeOver = Callable[[FaultContext, PausedWorker], str]
"""Lets others take over from a paused worker, and returns the proof as a sentence; empty if they did not in time."""


@contextmanager
def pause_until_taken_over(
    context: FaultContext, planned: PlannedFault, take_over: TakeOver, *, replaced: bool
) -> Iterator[InjectedFault]:
    """Pause the worker, let others take over, and resume it.

    The fault acted if others took over, and if the worker then continued its transaction.

    Args:
        context: The parts of the run.
        planned: The fault.
        take_over: Lets others take over.
        replaced: Whether another process has the name of the worker then. If so, the worker ends after it was resumed.
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
        uncommitted = _uncommitted(context, member, claims, replaced)
        for _ in range(MORE_TRIES):
            if uncommitted:
                break
            claims = processes.hold_at_step(member, step, timeout_s, intended_end="commit", resume=True)
            uncommitted = _uncommitted(context, member, claims, replaced)
    except WaitTimeout as error:  # a worker without inputs reaches no step, so the fault is not injected
        effect.unmet_goals[GOAL] = str(error)
        yield effect
        return
    before = member.status.counts
    begun_s = time.monotonic()
    effect.mark_injected()
    pause_proof = member.child.pause()
    try:
        progress = take_over(context, PausedWorker(member, claims, uncommitted))
        waited_s = time.monotonic() - begun_s
        yield effect
    finally:
        member.send(Command(replaced=replaced, go=True))
        member.child.resume()
        effect.mark_healed()
    came_back = _await_end(context, member, before)
    if not progress:
        effect.unmet_goals[GOAL] = f"{member.journal} was paused, but no other worker committed its inputs"
    elif not came_back:
        effect.unmet_goals[GOAL] = f"{progress}, but then {member.journal} did not continue its transaction"
    else:
        effect.add_proof(f"it waited at {step.value}; {pause_proof}; {progress} after {waited_s:.1f} s")
        effect.add_proof(came_back)


def _uncommitted(context: FaultContext, member: RunProcess, claims: Claims, replaced: bool) -> Claims:
    """Return the claims of the worker of which the fault can see that others take them over.

    In a group these are the claims that the group has not committed. Without a group, and without a replacement, only
    the time-out of its transaction ends it, so there must be one: it begins with the first record.
    """
    if member.group is not None:
        committed = context.cluster.committed_offsets(member.group)
        return {
            key: claim for key, claim in claims.items() if committed.get(split_partition(key), -1) < claim[1]
        }
    if replaced or stage_of(context, member).offset_tracking is OffsetTracking.EACH:
        return claims
    view = context.cluster.describe_transaction(id_of(context, member, claims))
    return claims if view is not None and view.state == "Ongoing" else {}


def id_of(context: FaultContext, member: RunProcess, claims: Claims) -> str:
    """Return the transactional id of a worker's transaction; an empty string if it has none."""
    partitions = map(split_partition, claims)
    return stage_of(context, member).transactional_id_of(member.worker or "", partitions) or ""


def await_others(context: FaultContext, paused: PausedWorker, otherwise: Callable[[], str | None]) -> str:
    """Wait until others have processed an input of a paused worker.

    Args:
        context: The parts of the run.
        paused: The worker.
        otherwise: Returns a sentence once others have taken over. Called if nothing shows which inputs are processed.

    Returns:
        A sentence that says so, or an empty string if it did not happen in time.
    """
    member, stage = paused.member, stage_of(context, paused.member)
    probe: Callable[[], str | None] = otherwise
    if member.group is not None:
        probe = partial(_committed_claim, context, member.group, paused.uncommitted)
    elif stage.offset_tracking is OffsetTracking.EACH:
        probe = partial(_processed_claim, context, paused.claims)
    awaited = f"{member.group or stage.name} to go on without {member.journal}"
    try:
        # If the worker has added its offsets, others wait until the coordinator has ended its transaction.
        return context.wait_for(
            probe, awaited, TAKE_OVER_TIMEOUT_S + stage.txn_timeout_ms / 1000, every_s=0.2
        )
    except WaitTimeout:
        return ""


def _committed_claim(context: FaultContext, group: str, claims: Claims) -> str | None:
    """Return a sentence that says which of the claims the group has committed. None: it has committed none."""
    committed = context.cluster.committed_offsets(group)
    for key, (_, following) in claims.items():
        if committed.get(split_partition(key), -1) >= following:
            return f"others had committed {key} up to {committed[split_partition(key)]}"
    return None


def _processed_claim(context: FaultContext, claims: Claims) -> str | None:
    """Return a sentence that says of which claim all rows are processed. None: of no claim."""
    for key, (first, following) in claims.items():
        if context.backlog(split_partition(key)[0], (first, following)) == 0:
            return f"others had processed {key} from {first} to {following - 1}"
    return None


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
