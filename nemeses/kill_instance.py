"""kill-instance: kill an instance of a custom pipeline and its child processes with SIGKILL, and start it again.

It can be aimed at a state of the instance's transaction: ongoing, offsets-added, prepare-commit. In prepare-commit the
commit is accepted, so the outputs stay, but some markers are not written until the fault is over. The replacement must
wait for these markers.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.common.errors import FaultFailed
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from nemeses.effects.instances import (
    EXTRA_NEEDS,
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
    """Kill the instance. The fault acted if the signal ended its process."""
    member, unready = await_working(context, planned.target)
    effect = new_effect(member)
    with stop_instance(context, planned, member, effect) as (member, stopped):
        note_unready(effect, unready)
        if stopped:
            member.expected_to_end = True
            ending = member.child.kill()
            if "SIGKILL" not in ending:
                raise FaultFailed(f"{member.journal} was not killed by the fault: {ending}")
            effect.add_proof(ending)
            effect.proof.append(f"{context.processes.replace(member).journal} took its place")
        yield effect  # markers are still held back during the hold
    await_followers(context, planned)


NEMESIS = Nemesis(
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
    inject=kill_instance,
)
