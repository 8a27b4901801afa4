"""Who is in the group of an instance, and whether the group has gone on without it."""

from collections.abc import Set

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.runner.member import RunProcess
from harness.runner.nemesis import FaultContext

STABLE_TIMEOUT_S = 75.0
TAKE_OVER_TIMEOUT_S = 75.0


def members(context: FaultContext, member: RunProcess) -> frozenset[str]:
    """Who is in its group, once that is stable. Raises `WaitTimeout`."""
    return frozenset(
        wait_for(
            lambda: context.cluster.members(member.group or ""),
            f"the group {member.group} to be stable",
            STABLE_TIMEOUT_S,
            every_s=0.2,
        )
    )


def await_gone(context: FaultContext, member: RunProcess, own: Set[str], before: Set[str]) -> str:
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
