"""The group of an instance: it joins and leaves, and the group goes on without it and with its inputs."""

from collections.abc import Callable, Mapping, Set

from harness.common.errors import StartFailed, WaitTimeout
from harness.common.wording import join_words
from harness.model.pipeline import TopicPartition
from harness.runner.nemesis import FaultContext, InjectedFault
from harness.runner.run_process import RunProcess
from nemeses.aiming.in_transaction import stage_of
from nemeses.aiming.observed_ids import find_member_ids, observe_client

STABLE_TIMEOUT_S = 75.0
TAKE_OVER_TIMEOUT_S = 75.0
LEFT, JOINED = "instance-left", "instance-joined"
"""The goals of faults that let instances leave and join."""


def members(context: FaultContext, member: RunProcess) -> frozenset[str]:
    """Wait until the group of the instance is stable, and return its member ids. Raises `WaitTimeout`."""
    return frozenset(
        context.wait_for(
            lambda: context.cluster.members(member.group or ""),
            f"the group {member.group} to be stable",
            STABLE_TIMEOUT_S,
            every_s=0.2,
        )
    )


def await_gone(context: FaultContext, member: RunProcess, own_ids: Set[str], before: Set[str]) -> str:
    """Wait until the instance has left its group and the group is stable without it. Return the proof as a sentence.

    If the member ids of the instance (`own_ids`) are not known, wait until any of the members in `before` has left.
    Then the proof says that this may have been another instance. Return an empty string if none left in time.
    """
    group = member.group

    def gone() -> str | None:
        now = context.cluster.members(group or "")
        left = before - set(now or ())
        if not now or not left or (own_ids and own_ids & set(now)):
            return None
        went_on = f"its group {group} went on without"
        if own_ids:
            return f"{went_on} it ({', '.join(sorted(own_ids))}), with {len(now)} members"
        cause = (
            ", because no protocol proxy is on its links" if observe_client(context, member) is None else ""
        )
        return (
            f"{went_on} {', '.join(sorted(left))}, with {len(now)} members; which of them was {member.journal} "
            f"is not known{cause}, so another instance may have left instead"
        )

    try:
        awaited = f"{group} to go on without {member.journal}"
        return context.wait_for(gone, awaited, TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""


def await_inputs_committed(context: FaultContext, member: RunProcess) -> str:
    """Wait until the group of an instance has committed inputs in each partition that has some. Return the proof.

    If the instance has left the group, other members have committed the first of its inputs then: they began at the
    committed offsets. The time without a commit is short, because the transaction of the instance may time out.
    Raises `WaitTimeout`.
    """
    group, topics = member.group or "", stage_of(context, member).reads
    first = context.cluster.committed_offsets(group)
    ends = {key: stable for key, (_, stable, _) in context.cluster.log_offsets(topics).items()}
    begins = {key: first.get(key, 0) for key, stable in sorted(ends.items()) if first.get(key, 0) < stable}
    last: Mapping[TopicPartition, int] = {}

    def committed() -> bool:
        nonlocal last
        last = context.cluster.committed_offsets(group)
        return all(last.get(key, 0) > begin for key, begin in begins.items())

    def ranges() -> str:
        return join_words(
            f"{topic}/{partition} from {begin} to {last.get((topic, partition), 0)}"
            for (topic, partition), begin in begins.items()
        )

    awaited = f"{group} to commit the inputs of {member.journal}"
    context.wait_for(committed, awaited, TAKE_OVER_TIMEOUT_S, every_s=0.2, last_seen=ranges)
    return f"the others had committed {ranges()}"


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
