"""Pause an instance of a custom pipeline until others have taken over from it, and resume it: a zombie.

The group removes a member after its session time-out, which the program sets (Kafka's default is 45 s).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from harness.common.errors import WaitTimeout, in_words
from harness.network import LinkMeter
from harness.network.links import client_links_by_broker
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from harness.runner.run_process import RunProcess
from nemeses.aiming.observed_ids import find_member_ids
from nemeses.effects.instances import (
    await_followers,
    await_working,
    new_effect,
    note_unready,
    stop_instance,
)
from nemeses.effects.membership import await_gone, members
from nemeses.effects.zombie_workers import GOAL

COME_BACK_TIMEOUT_S = 20.0
PROVES = "the group went on without it, and it then ended, sent requests or rejoined"

TakeOver = Callable[[FaultContext, RunProcess, InjectedFault, Callable[[], str]], str]
"""Lets others take over from a paused instance, and returns the proof as a sentence; empty if they did not.

Its arguments are the context, the instance, the effect, and a function. The function waits until the group goes on
without the instance, and returns the proof as a sentence; empty if this did not happen in time.
"""


@contextmanager
def pause_until_taken_over(
    context: FaultContext, planned: PlannedFault, take_over: TakeOver
) -> Iterator[InjectedFault]:
    """Pause the instance, let others take over, and resume it.

    The fault acted if others took over, and if the instance ended, sent requests or rejoined after it was resumed.
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
    proof = ""

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
            departed = partial(await_gone, context, member, own_ids & before, before)
            proof = take_over(context, member, effect, departed)
        yield effect
        paused = _PausedInstance.of(context, member) if proof else None
    finally:
        member.child.resume()
        effect.mark_healed()
    await_followers(context, planned)
    if not stopped:
        return
    if paused is None:
        effect.unmet_goals.setdefault(
            GOAL, f"{member.journal} was paused, but its group did not go on without it"
        )
        return
    try:
        effect.add_proof(f"{proof}; then {paused.await_activity(context)}")
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = f"{proof}; but then {member.journal} did nothing: {error}"


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
