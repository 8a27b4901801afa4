"""kill-instance: an instance of a user's program ends by SIGKILL, with all that it started, and is started again.

It can be aimed at a state of its transaction: ongoing, offsets-added, prepare-commit. In the last it dies once its
commit is accepted, before all markers are written: its outputs stay. The markers come once the fault is over; whoever
takes its place before must wait for them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.common.errors import FaultFailed
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from nemeses.effects.instances import (
    MORE_IN,
    STATES,
    any_instance,
    await_followers,
    await_working,
    new_effect,
    note_unready,
    occupied_resources,
    stop_instance,
)


@contextmanager
def kill_instance(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """It acted if its process was there, and ended by the signal."""
    member, unready = await_working(context, planned.target)
    effect = new_effect(member)
    with stop_instance(context, planned, member, effect) as (member, there):
        note_unready(effect, unready)
        if there:
            member.expected_to_end = True
            ending = member.child.kill()
            if "SIGKILL" not in ending:
                raise FaultFailed(f"{member.journal} was to be killed, but {ending}")
            effect.add_proof(ending)
            effect.proof.append(f"{context.processes.replace(member).journal} took its place")
        yield effect  # markers that are held back stay so meanwhile
    await_followers(context, planned)


NEMESIS = Nemesis(
    name="kill-instance",
    summary="kill -9 an instance of your own program, and all that it started; it is started again",
    past_tense="was killed",
    occupies=occupied_resources,
    hold_s=1.0,
    recovery_s=8.0,
    draw=any_instance,
    aimable=True,
    discovers_ids=True,
    states=STATES,
    extra_needs_in=MORE_IN,
    inject=kill_instance,
)
