"""pause-instance: pause an instance of a custom pipeline until its group goes on without it, and resume it: a zombie.

When it is resumed, it goes on with inputs that others have processed. What it does must have no effect. The group
removes a member after its session time-out, which the program sets (Kafka's default is 45 s).

If the fault is aimed at prepare-commit, the instance is paused when its commit is accepted. Then its transaction is
committed, and the instance gets the response when it is resumed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random

from harness.common.errors import StartFailed, WaitTimeout, in_words
from harness.network import LinkMeter
from harness.network.links import client_links_by_broker
from harness.runner.member import RunProcess
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    NotForThisPipeline,
    PlannedFault,
)
from nemeses.aiming.observed_ids import find_member_ids
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

    The fault acted if the group removed the instance and went on without it, and if the instance then ended, sent
    requests or rejoined.
    """
    member, unready = await_working(context, planned.target)
    effect = new_effect(member)
    try:
        first = members(context, member)
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
        yield effect
        return
    own: frozenset[str] = frozenset()
    gone = ""

    def identify(target: RunProcess) -> None:
        nonlocal own
        own = find_member_ids(context, target)

    try:
        with stop_instance(context, planned, member, effect, identify) as (member, stopped):
            note_unready(effect, unready)
        # The markers are no longer held back, so that the other instances can go on.
        if stopped:
            now = context.cluster.members(member.group or "")
            before = first if now is None else frozenset(now)
            replacement = context.processes.replace(member)
            gone = await_gone(context, member, own & before, before)
            if gone:
                _await_replacement(context, replacement, effect)
        yield effect
        asleep = _PausedInstance.of(context, member) if gone else None
    finally:
        member.child.resume()
    await_followers(context, planned)
    if not stopped:
        return
    if asleep is None:
        effect.unmet_goals[GOAL] = f"{member.journal} was paused, and its group did not go on without it"
        return
    try:
        effect.add_proof(f"{gone}; then {asleep.came_back(context)}")
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = f"{gone}; but then {member.journal} did nothing: {error}"


def _await_replacement(context: FaultContext, replacement: RunProcess, effect: InjectedFault) -> None:
    """Wait until the replacement is ready. If it ended, it is started again, and the fault goes on."""
    try:
        context.processes.await_ready([replacement])
    except (StartFailed, WaitTimeout) as error:
        effect.proof.append(str(error))


@dataclass(frozen=True)
class _PausedInstance:
    """The state of a paused instance right before it is resumed."""

    member: RunProcess
    meter: LinkMeter | None  # of the links of its client; None: its client has no links
    members: frozenset[str] | None  # the members of its group; None: the group was not stable

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

    def came_back(self, context: FaultContext) -> str:
        """Return what the instance did after it was resumed, in words. Raises `WaitTimeout` if it did nothing.

        Watch it for `COME_BACK_TIMEOUT_S`, or until it ends. Within this time its client sends a heartbeat, and learns
        that the group has gone on.
        """
        member = self.member
        try:
            member.child.wait(COME_BACK_TIMEOUT_S)
        except WaitTimeout:
            return f"{member.journal} came back, {self._did(context)}, and still runs after {COME_BACK_TIMEOUT_S:g} s"
        return f"{member.journal} came back and ended: {member.last_output()}"

    def _did(self, context: FaultContext) -> str:
        carried = self.meter.traffic() if self.meter else None
        if carried is not None:
            if sent := sum(one.requests for one in carried.values()):
                return f"sent {sent} bytes of requests"
            raise self._nothing("it to end or to send a request", "it runs, and has sent no byte")
        group = self.member.group or ""
        if new_ids := find_member_ids(context, self.member):  # all its earlier ids have left the group
            return f"rejoined its group {group} ({', '.join(sorted(new_ids))})"
        now = context.cluster.members(group)
        new = frozenset(now or ()) - self.members if self.members is not None else frozenset()
        if new:
            return f"{', '.join(sorted(new))} joined its group {group} (it is not known whether this was the instance)"
        raise self._nothing(
            f"it to end or to rejoin {group}", f"it runs, and the members of {group} are: {in_words(now)}"
        )

    @staticmethod
    def _nothing(awaited: str, seen: str) -> WaitTimeout:
        return WaitTimeout(awaited, COME_BACK_TIMEOUT_S, seen)


NEMESIS = Nemesis(
    name="pause-instance",
    summary="SIGSTOP an instance of your own program, SIGCONT after its group has gone on without it: a zombie",
    past_tense="was paused and replaced",
    occupies=occupied_resources,
    hold_s=1.0,
    recovery_s=30.0,
    keeps_endpoint=True,
    draw=draw,
    aimable=True,
    discovers_ids=True,
    states=STATES,
    extra_needs_in=MORE_IN,
    inject=pause_instance,
)
