"""Which members of its group are an instance's own, and whether the group has gone on without them.

A group names its members by ids that their clients or the coordinator made up. Each instance has a client slot of its
own, and the brokers can write down what they are asked over it: a heartbeat there has the id of its member.
"""

from collections.abc import Set
from contextlib import suppress

from harness.errors import EnvironmentFailure, WaitTimeout
from harness.runner.faults import FaultContext
from harness.runner.member import Member
from harness.waiting import wait_for

IDENTIFY_TIMEOUT_S = 8.0
"""More than the 5 s between two heartbeats of the consumer protocol (3 s of the classic one)."""
STABLE_TIMEOUT_S = 75.0
TAKE_OVER_TIMEOUT_S = 75.0
RECORDING = "pause-instance's"


def members(context: FaultContext, member: Member) -> frozenset[str]:
    """Who is in its group, once that is stable. Raises `WaitTimeout`."""
    return frozenset(
        wait_for(
            lambda: context.cluster.members(member.group or ""),
            f"the group {member.group} to be stable",
            STABLE_TIMEOUT_S,
            every_s=0.2,
        )
    )


def own_ids(context: FaultContext, member: Member) -> frozenset[str]:
    """The ids by which the instance is in its group; empty: that cannot be told."""
    cluster, group = context.cluster, member.group or ""
    if not cluster.brokers:  # none of them is the run's own: they write nothing down for it
        return frozenset()

    def heard() -> frozenset[str]:
        spoken = cluster.member_ids(member.slot, group)
        return spoken & frozenset(cluster.members(group) or ()) if spoken else spoken

    try:
        cluster.record_requests(True, RECORDING)
        return wait_for(heard, f"a request of {member.journal} as a member", IDENTIFY_TIMEOUT_S, every_s=0.5)
    except EnvironmentFailure:  # nobody heartbeats, or a broker does not answer
        return frozenset()
    finally:
        with suppress(EnvironmentFailure):
            cluster.record_requests(False, RECORDING)


def await_gone(context: FaultContext, member: Member, own: Set[str], before: Set[str]) -> str:
    """Wait until its members have left the group, and the group has settled with others; empty: it never came to that.

    Where nobody knows its ids, until any member that was there before has left: the sentence says so.
    """
    group = member.group

    def gone() -> str | None:
        now = context.cluster.members(group or "")
        left = before - set(now or ())
        if not now or not left or (own and own & set(now)):
            return None
        went_on = f"its group {group} went on without"
        if own:
            return f"{went_on} it ({', '.join(sorted(own))}), with {len(now)} members"
        return (
            f"{went_on} {', '.join(sorted(left))}, with {len(now)} members; which of them was {member.journal} "
            "is not known, so another instance may have left instead"
        )

    try:
        return wait_for(gone, f"{group} to go on without {member.journal}", TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""
