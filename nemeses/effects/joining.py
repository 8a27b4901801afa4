"""Instances of a custom pipeline join their group, and leave it cleanly."""

from collections.abc import Callable, Set

from harness.common.errors import StartFailed, WaitTimeout
from harness.runner.nemesis import FaultContext, InjectedFault
from harness.runner.run_process import RunProcess
from nemeses.aiming.observed_ids import find_member_ids
from nemeses.effects.membership import STABLE_TIMEOUT_S, await_gone, members

LEFT, JOINED = "instance-left", "instance-joined"
"""The goals of faults that let instances leave and join."""


def join(
    context: FaultContext, stage: str, worker: str, effect: InjectedFault, before: Set[str]
) -> RunProcess:
    """Start an instance, and wait until it is ready and in its group. Return it.

    If it did not join, the effect has the reason.

    Args:
        context: The parts of the run.
        stage: The name of the stage.
        worker: The name of the instance.
        effect: Gets the proof.
        before: The member ids of the group before.
    """
    if effect.injected_ns is None:
        effect.mark_injected()
    member = context.processes.start_worker(stage, worker)
    try:
        context.processes.await_ready([member])
        effect.add_proof(_await_member(context, member, before))
    except (StartFailed, WaitTimeout) as error:
        effect.unmet_goals[JOINED] = f"{member.journal} did not join: {error}"
    return member


def _await_member(context: FaultContext, member: RunProcess, before: Set[str]) -> str:
    """Wait until the group has a member that is not in `before`. Return the proof. Raises `WaitTimeout`."""
    group = member.group
    if group is None:
        return f"{member.journal} was ready"

    def joined() -> str | None:
        now = frozenset(context.cluster.members(group) or ())
        new = ", ".join(sorted(now - before))
        return f"{member.journal} joined: {group} had {len(now)} members, with {new}" if new else None

    return context.wait_for(joined, f"{member.journal} to join {group}", STABLE_TIMEOUT_S, every_s=0.2)


def leave(
    context: FaultContext,
    member: RunProcess,
    effect: InjectedFault,
    replace: Callable[[frozenset[str]], None] = lambda before: None,
) -> bool:
    """Send the stop signal to an instance. Wait until it has ended, and until its group goes on without it.

    If it does not end in time, it is killed. If it did not leave cleanly, the effect has the reason.

    Args:
        context: The parts of the run.
        member: The instance.
        effect: Gets the proof.
        replace: Called once the instance has ended, with the member ids that its group had before.

    Returns:
        Whether the signal was sent. If not, the instance had ended by itself, and the run replaces it.
    """
    before = own_ids = frozenset[str]()
    if member.group is not None:
        try:
            before = members(context, member)
        except WaitTimeout as error:
            effect.unmet_goals[LEFT] = str(error)
            return False
        own_ids = find_member_ids(context, member) & before
    if effect.injected_ns is None:
        effect.mark_injected()
    if not context.processes.ask_to_leave(member):
        effect.unmet_goals[LEFT] = f"{member.journal} ended before the signal: {member.last_output()}"
        return False
    signal = member.rules.stop_signal if member.rules else "the command to stop"
    timeout_s = context.scaled(member.stop_within_s)
    try:
        exited = member.child.wait(timeout_s) >= 0
        ending = member.child.ending()
    except WaitTimeout:
        exited, ending = False, f"it did not end within {timeout_s:g} s: {member.child.kill()}"
    replace(before)
    if not exited:
        effect.unmet_goals[LEFT] = f"{member.journal} did not leave cleanly after {signal}: {ending}"
        return True
    departure = await_gone(context, member, own_ids, before) if member.group is not None else ""
    if departure or member.group is None:
        effect.add_proof("; ".join(filter(None, (f"{member.journal} got {signal}: {ending}", departure))))
    else:
        effect.unmet_goals[LEFT] = f"{ending} after {signal}, but its group did not go on without it"
    return True
