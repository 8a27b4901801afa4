"""The members of the group of an instance, and whether the group goes on without it."""

from collections.abc import Set

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.runner.member import RunProcess
from harness.runner.nemesis import FaultContext

STABLE_TIMEOUT_S = 75.0
TAKE_OVER_TIMEOUT_S = 75.0


def members(context: FaultContext, member: RunProcess) -> frozenset[str]:
    """Wait until the group of the instance is stable, and return its member ids. Raises `WaitTimeout`."""
    return frozenset(
        wait_for(
            lambda: context.cluster.members(member.group or ""),
            f"the group {member.group} to be stable",
            STABLE_TIMEOUT_S,
            every_s=0.2,
        )
    )


def await_gone(context: FaultContext, member: RunProcess, own: Set[str], before: Set[str]) -> str:
    """Wait until the instance has left its group and the group is stable without it. Return the proof in words.

    If the member ids of the instance (`own`) are not known, wait until any of the members in `before` has left. The
    proof says so. Empty: it did not happen in time.
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
