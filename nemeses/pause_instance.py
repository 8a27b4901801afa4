"""pause-instance: pause an instance of a custom pipeline until its group goes on without it, and resume it: a zombie.

When it is resumed, it continues with inputs that others have processed. Its requests must have no effect. The group
removes a member after its session time-out, which the program sets (Kafka's default is 45 s).

If the fault is aimed at prepare-commit, the instance is paused when its commit is accepted. So its transaction is
committed, and it gets the response when it is resumed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random

from harness.common.errors import StartFailed, WaitTimeout, in_words
from harness.network import LinkMeter
from harness.network.links import client_links_by_broker
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    NotForThisPipeline,
    PlannedFault,
)
from harness.runner.run_process import RunProcess
from nemeses.aiming.observed_ids import find_member_ids
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
from nemeses.effects.membership import await_gone, members
from nemeses.pause_worker import GOAL

COME_BACK_TIMEOUT_S = 20.0


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw an instance of a stage with a group."""
    grouped = {stage: names for stage, names in targets.workers.items() if stage in targets.groups}
    if not grouped:
        raise NotForThisPipeline("a custom pipeline (--pipeline) with a group")
    steps = {stage: targets.steps.get(stage, ()) for stage in grouped}
    return any_instance(rng, replace(targets, workers=grouped, steps=steps))


@contextmanager
def pause_instance(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Pause the instance, replace it, and resume it.

    The fault acted if the group removed the instance and went on without it, and if the instance ended, sent requests
    or rejoined after it was resumed.
    """
    member, unready = await_working(context, planned.target)
    effect = new_effect(member)
    try:
        first = members(context, member)
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
        yield effect
        return
    own_ids: frozenset[str] = frozenset()
    departure = ""

    def identify(target: RunProcess) -> None:
        nonlocal own_ids
        own_ids = find_member_ids(context, target)

    try:
        with stop_instance(context, planned, member, effect, identify) as (member, stopped):
            note_unready(effect, unready)
        # The markers are no longer held back, so that the other instances can go on.
        if stopped:
            now = context.cluster.members(member.group or "")
            before = first if now is None else frozenset(now)
            replacement = context.processes.replace(member)
            departure = await_gone(context, member, own_ids & before, before)
            if departure:
                _await_replacement(context, replacement, effect)
        yield effect
        paused = _PausedInstance.of(context, member) if departure else None
    finally:
        member.child.resume()
        effect.mark_healed()
    await_followers(context, planned)
    if not stopped:
        return
    if paused is None:
        effect.unmet_goals[GOAL] = f"{member.journal} was paused, but its group did not go on without it"
        return
    try:
        effect.add_proof(f"{departure}; then {paused.await_activity(context)}")
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = f"{departure}; but then {member.journal} did nothing: {error}"


def _await_replacement(context: FaultContext, replacement: RunProcess, effect: InjectedFault) -> None:
    """Wait until the replacement is ready. If it ends before that, the run starts another one."""
    try:
        context.processes.await_ready([replacement])
    except (StartFailed, WaitTimeout) as error:
        effect.proof.append(str(error))


@dataclass(frozen=True)
class _PausedInstance:
    """The state of a paused instance right before it is resumed."""

    member: RunProcess
    meter: LinkMeter | None  # counts the bytes on the links of its client; None if its client has no links
    members: frozenset[str] | None  # the members of its group; None if the group was not stable

    @classmethod
    def of(cls, context: FaultContext, member: RunProcess) -> "_PausedInstance":
        """Read the state now."""
        network = context.cluster.network
        links = client_links_by_broker(member.endpoint, network.links).values()
        group_members = context.cluster.members(member.group or "")
        return cls(
            member,
            network.meter(links) if links else None,
            None if group_members is None else frozenset(group_members),
        )

    def await_activity(self, context: FaultContext) -> str:
        """Return a sentence that says what the instance did after it was resumed.

        Watch it for `COME_BACK_TIMEOUT_S`, or until it ends. Within this time its client sends a heartbeat, and learns
        that the group has gone on without it. Raises `WaitTimeout` if the instance did nothing.
        """
        member, timeout_s = self.member, context.scaled(COME_BACK_TIMEOUT_S)
        try:
            member.child.wait(timeout_s)
        except WaitTimeout:
            activity = self._activity(context, timeout_s)
            return f"{member.journal} came back, {activity}, and still runs after {timeout_s:g} s"
        return f"{member.journal} came back and ended: {member.last_output()}"

    def _activity(self, context: FaultContext, timeout_s: float) -> str:
        traffic = self.meter.traffic() if self.meter else None
        if traffic is not None:
            if sent := sum(on_link.requests for on_link in traffic.values()):
                return f"sent {sent} bytes of requests"
            raise WaitTimeout("it to end or to send a request", timeout_s, "it runs, and has sent no byte")
        group = self.member.group or ""
        if new_ids := find_member_ids(context, self.member):  # its earlier ids have all left the group
            return f"rejoined its group {group} ({', '.join(sorted(new_ids))})"
        now = context.cluster.members(group)
        new = frozenset(now or ()) - self.members if self.members is not None else frozenset()
        if new:
            return f"{', '.join(sorted(new))} joined its group {group} (it is not known whether this was the instance)"
        last_seen = f"it runs, and the members of {group} are: {in_words(now)}"
        raise WaitTimeout(f"it to end or to rejoin {group}", timeout_s, last_seen)


NEMESIS = Nemesis(
    name="pause-instance",
    summary="SIGSTOP an instance of your own program, SIGCONT after its group has gone on without it: a zombie",
    past_tense="was paused and replaced",
    proves="the group went on without it, and it then ended, sent requests or rejoined",
    occupies=occupied_resources,
    hold_s=1.0,
    recovery_s=30.0,
    keeps_endpoint=True,
    draw=draw,
    aimable=True,
    discovers_ids=True,
    discovers_members=True,
    states=STATES,
    extra_needs_by_state=EXTRA_NEEDS,
    inject=pause_instance,
)
