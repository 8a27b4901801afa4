"""Faults that kill a worker or an instance with SIGKILL, and start it again: a row of `NEMESES` each."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, uses_workers
from nemeses.effects.instance_member import (
    EXTRA_NEEDS,
    STATES,
    InstanceMember,
    any_instance,
    occupied_resources,
)
from nemeses.effects.member import Member
from nemeses.effects.worker_member import WorkerMember, any_worker


@contextmanager
def kill_member(kind: type[Member], context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Kill the member and its child processes. The fault acted if it was held, and the signal ended its process."""
    member = kind.find(context, planned)
    with member.held() as held:
        if held:
            member.kill()
            member.effect.proof.append(f"{member.replace().journal} took its place")
        yield member.effect  # it is still held during the hold: markers are not written
    member.await_recovery()


NEMESES: Sequence[Nemesis] = (
    Nemesis(
        name="kill-worker",
        summary="kill -9 a worker at a named step of its loop, and replace it",
        past_tense="was killed",
        proves="the worker was at the step, and the signal ended its process",
        occupies=uses_workers,
        hold_s=1.0,
        recovery_s=6.0,
        draw=lambda rng, targets: any_worker(rng, targets, targets.steps),
        aimable=True,
        inject=partial(kill_member, WorkerMember),
    ),
    # It can be aimed at a state of the instance's transaction: ongoing, offsets-added, prepare-commit. In
    # prepare-commit the commit is accepted, so the outputs stay, but some markers are not written until the fault is
    # over. The replacement must wait for these markers.
    Nemesis(
        name="kill-instance",
        summary="kill -9 an instance of your own program and its child processes, and start it again",
        past_tense="was killed",
        proves="the signal ended its process",
        occupies=occupied_resources,
        hold_s=1.0,
        recovery_s=8.0,
        draw=any_instance,
        aimable=True,
        discovers_ids=True,
        states=STATES,
        extra_needs_by_state=EXTRA_NEEDS,
        inject=partial(kill_member, InstanceMember),
    ),
)
